(** The coefficients of the polynomials of csrc/exponential.hpp, as the compiler rounds them, and Horner's scheme.

    A test reads the coefficients from the C++ source and compares. *)

From Coq Require Import Reals QArith Qreals List.
Import ListNotations.

(** C[0], ..., C[6] of Exponential<float>. *)
Definition float_coefficients : list Q :=
  [ 1 # 1;
    11629081 # 16777216;
    16121329 # 67108864;
    14899001 # 268435456;
    10326919 # 1073741824;
    11516219 # 8589934592;
    10716581 # 68719476736 ]%Q.

(** C[0], ..., C[11] of Exponential<double>. *)
Definition double_coefficients : list Q :=
  [ 1 # 1;
    6243314768165363 # 9007199254740992;
    1081884007225523 # 4503599627370496;
    7998985059209009 # 144115188075855872;
    1386118485280647 # 144115188075855872;
    6149018371210797 # 4611686018427387904;
    1420724919436401 # 9223372036854775808;
    9003621071979721 # 590295810358705651712;
    1560204088637523 # 1180591620717411303424;
    7692279906557435 # 75557863725914323419136;
    8550213020685903 # 1208925819614629174706176;
    1972032599521819 # 4835703278458516698824704 ]%Q.

Open Scope R_scope.

(** c_0 + c_1 f + ... + c_g f^g, without rounding. *)
Fixpoint horner (coefficients : list Q) (f : R) : R :=
  match coefficients with
  | [] => 0
  | c :: [] => Q2R c
  | c :: rest => horner rest f * f + Q2R c
  end.
