(** The error of the exponential of the kernels, csrc/exponential.hpp: at most 2.4 units of relative error, where a unit is
    2^-24 in binary32 and 2^-53 in binary64. A unit in the last place of a result is between one and two of these units
    of the result, so that the error is less than 2.4 units in the last place.

    2^x = 2^n 2^f with n an integer and f = x - n in [-1/2, 1/2]. The difference and the product with 2^n are exact where
    the result is a normal number, so that the error is the one of 2^f. *)

From Coq Require Import Reals QArith Qreals List Lra Lia ZArith.
From Flocq Require Import Core.
From Separatrix Require Import ExponentialCoefficients ExponentialApproximation ExponentialRounding.
Open Scope R_scope.

(** In binary32, with and without fused multiply-adds. *)
Theorem exponential_float_error (fused : bool) (f : R) :
  -1 / 2 <= f <= 1 / 2 ->
  Rabs (rounded_horner round_float fused float_coefficients f - exp (f * ln 2)) <= 24 / 10 / 2 ^ 24 * exp (f * ln 2).
Proof.
  intros range. replace (24 / 10 / 2 ^ 24) with (IZR 2400 / (1000 * IZR (2 ^ 24))) by (simpl; lra).
  apply (all_pieces_sound 24 1 2400 370); try lia;
    [apply nearest_error; lia | apply float_pieces | exact range |].
  replace (IZR 370 / (1000 * IZR (2 ^ 24))) with (37 / 100 / 2 ^ 24) by (simpl; lra).
  now apply exponential_float_polynomial.
Qed.

(** In binary64, with and without fused multiply-adds. *)
Theorem exponential_double_error (fused : bool) (f : R) :
  -1 / 2 <= f <= 1 / 2 ->
  Rabs (rounded_horner round_double fused double_coefficients f - exp (f * ln 2)) <= 24 / 10 / 2 ^ 53 * exp (f * ln 2).
Proof.
  intros range. replace (24 / 10 / 2 ^ 53) with (IZR 2400 / (1000 * IZR (2 ^ 53))) by (simpl; lra).
  apply (all_pieces_sound 53 1 2400 385); try lia;
    [apply nearest_error; lia | apply double_pieces | exact range |].
  replace (IZR 385 / (1000 * IZR (2 ^ 53))) with (385 / 1000 / 2 ^ 53) by (simpl; lra).
  now apply exponential_double_polynomial.
Qed.

(** The reduced argument has no error: if x is a number of a binary format and n an integer within 1/2 of it, then x - n
    is a number of the format too. *)
Theorem exponential_reduction_exact (emin prec : Z) (x : R) (n : Z) :
  (emin <= 0)%Z -> (1 < prec)%Z ->
  generic_format radix2 (FLT_exp emin prec) x -> Rabs (x - IZR n) <= 1 / 2 ->
  nearest emin prec (x - IZR n) = x - IZR n.
Proof.
  intros emin0 prec1 format near.
  assert (valid : Valid_exp (FLT_exp emin prec)) by (apply FLT_exp_valid; unfold Prec_gt_0; lia).
  apply round_generic; [apply valid_rnd_N |].
  destruct (Req_dec (x - IZR n) 0) as [zero | nonzero]; [rewrite zero; apply generic_format_0 |].
  set (e := cexp radix2 (FLT_exp emin prec) x). set (m := Ztrunc (scaled_mantissa radix2 (FLT_exp emin prec) x)).
  assert (value : x = IZR m * bpow radix2 e) by (exact format).
  destruct (Z_lt_le_dec 0 e) as [positive | negative].
  - (* x is an integer, and so is x - n, which is 0. *)
    exfalso. assert (integer : x = IZR (m * 2 ^ e)).
    { rewrite value, mult_IZR. f_equal. rewrite <- IZR_Zpower by lia. reflexivity. }
    rewrite integer, <- minus_IZR in near, nonzero.
    assert (m * 2 ^ e - n <> 0)%Z by (intros zero; apply nonzero; rewrite zero; reflexivity).
    assert (1 <= Rabs (IZR (m * 2 ^ e - n))).
    { rewrite <- abs_IZR. apply IZR_le. lia. }
    lra.
  - destruct (Z.eq_dec n 0) as [-> | n0]; [now rewrite Rminus_0_r |].
    (* |x| >= 1/2, so that a number of exponent e below 1/2 in magnitude is in the format. *)
    assert (large : 1 / 2 <= Rabs x).
    { assert (1 <= Rabs (IZR n)) by (rewrite <- abs_IZR; apply IZR_le; lia).
      pose proof (Rabs_triang (IZR n - x) x) as triangle. replace (IZR n - x + x) with (IZR n) in triangle by ring.
      rewrite (Rabs_minus_sym (IZR n)) in triangle. lra. }
    assert (difference : x - IZR n = IZR (m - n * 2 ^ (- e)) * bpow radix2 e).
    { rewrite minus_IZR, Rmult_minus_distr_r, <- value. f_equal.
      rewrite mult_IZR, Rmult_assoc. rewrite <- (Rmult_1_r (IZR n)) at 1. f_equal.
      change 2%Z with (radix_val radix2). rewrite IZR_Zpower by lia. rewrite <- bpow_plus, Z.add_opp_diag_l. reflexivity. }
    rewrite difference. apply generic_format_F2R' with (f := Float radix2 (m - n * 2 ^ (- e)) e); [reflexivity |].
    intros _. unfold F2R; cbn [Fnum Fexp]. rewrite <- difference. unfold e, cexp.
    apply (monotone_exp (FLT_exp emin prec)).
    apply mag_le_abs; [exact nonzero | lra].
Qed.
