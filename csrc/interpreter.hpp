// The Python interpreter that calls the library: its lock is released while kernels run, and its signal handlers run in
// between, so that a long call can be interrupted.
#pragma once

#include <cstdint>

namespace separatrix {

// PyEval_SaveThread, PyEval_RestoreThread and PyErr_CheckSignals, or null for a caller without an interpreter.
using SaveThread = void* (*)();
using RestoreThread = void (*)(void*);
using CheckSignals = int (*)();

// `main_thread` is the pthread_t of the thread that runs signal handlers; no other thread looks for signals.
void set_interpreter(SaveThread save, RestoreThread restore, CheckSignals check, std::uintptr_t main_thread);

// Releases the interpreter's lock in its scope. A signal handler may call the library again.
class ReleasedInterpreter {
public:
    ReleasedInterpreter();
    ~ReleasedInterpreter();
    ReleasedInterpreter(const ReleasedInterpreter&) = delete;
    ReleasedInterpreter& operator=(const ReleasedInterpreter&) = delete;

    // Whether the calling thread released the interpreter and is the one that runs signal handlers.
    static bool runs_signal_handlers();
    // Run the handlers of pending signals. Returns true if a handler raised an exception, which the interpreter raises
    // when the call returns to it.
    static bool handle_signals();

private:
    void* state_;
    ReleasedInterpreter* const outer_;  // of the outer call, if a signal handler made this call
};

}  // namespace separatrix
