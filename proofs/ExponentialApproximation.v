(** How far the polynomials of csrc/exponential.hpp are from 2^f, by Coq-Interval.

    The interval arithmetic computes with the integers of the standard library, so that no axiom about machine integers
    is used. *)

From Coq Require Import Reals QArith Qreals List Lra.
From Interval Require Import Tactic Float.Specific_stdz Float.Specific_ops.
From Separatrix Require Import ExponentialCoefficients.
Module IntegerFloat := SpecificFloat StdZRadix2.
Module IntegerTactic := IntervalTactic IntegerFloat.
Import IntegerTactic.
Import ListNotations.
Open Scope R_scope.

(** |p(f) 2^-f - 1| <= 0.37 2^-24 on [-1/2, 1/2] for the polynomial of float. *)
Theorem exponential_float_polynomial (f : R) :
  -1 / 2 <= f <= 1 / 2 -> Rabs (horner float_coefficients f * exp (- (f * ln 2)) - 1) <= 37 / 100 / 2 ^ 24.
Proof.
  intros range. cbn [horner float_coefficients]. unfold Q2R; simpl.
  interval with (i_taylor f, i_bisect f, i_degree 10, i_prec 60).
Qed.

(** |p(f) 2^-f - 1| <= 0.385 2^-53 on [-1/2, 1/2] for the polynomial of double. *)
Theorem exponential_double_polynomial (f : R) :
  -1 / 2 <= f <= 1 / 2 -> Rabs (horner double_coefficients f * exp (- (f * ln 2)) - 1) <= 385 / 1000 / 2 ^ 53.
Proof.
  intros range. cbn [horner double_coefficients]. unfold Q2R; simpl.
  interval with (i_taylor f, i_bisect f, i_degree 15, i_prec 100).
Qed.
