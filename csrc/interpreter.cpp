#include "interpreter.hpp"

#include <pthread.h>

namespace separatrix {

namespace {

SaveThread save_thread = nullptr;
RestoreThread restore_thread = nullptr;
CheckSignals check_signals = nullptr;
std::uintptr_t signal_thread = 0;

thread_local ReleasedInterpreter* released = nullptr;

}  // namespace

void set_interpreter(SaveThread save, RestoreThread restore, CheckSignals check, std::uintptr_t main_thread) {
    save_thread = save;
    restore_thread = restore;
    check_signals = check;
    signal_thread = main_thread;
}

ReleasedInterpreter::ReleasedInterpreter() : state_(save_thread ? save_thread() : nullptr), outer_(released) {
    released = this;
}

ReleasedInterpreter::~ReleasedInterpreter() {
    released = outer_;
    if (state_) restore_thread(state_);
}

bool ReleasedInterpreter::runs_signal_handlers() {
    return released && released->state_ && (std::uintptr_t)pthread_self() == signal_thread;
}

bool ReleasedInterpreter::handle_signals() {
    ReleasedInterpreter* const own = released;
    restore_thread(own->state_);
    const bool raised = check_signals() != 0;
    own->state_ = save_thread();
    return raised;
}

}  // namespace separatrix
