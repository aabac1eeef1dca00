(** How much Horner's scheme of csrc/exponential.hpp rounds, in IEEE 754 binary32 and binary64 with subnormal numbers.

    [-1/2, 1/2] is cut into pieces. On each piece a function on integers, which stand for multiples of 2^-120, bounds the
    polynomial and the rounding error of every step; a theorem says that its bounds hold, and Coq evaluates it. *)

From Coq Require Import Reals QArith Qreals List Lra Lia ZArith.
From Flocq Require Import Core Relative.
From Separatrix Require Import ExponentialCoefficients.
Import ListNotations.
Open Scope R_scope.

(** Horner's scheme as it is computed. [fused] says whether a multiplication and an addition are rounded once, as with a
    fused multiply-add, or each for itself. *)
Fixpoint rounded_horner (rnd : R -> R) (fused : bool) (coefficients : list Q) (f : R) : R :=
  match coefficients with
  | [] => 0
  | c :: [] => Q2R c
  | c :: rest =>
      let product := rounded_horner rnd fused rest f * f in
      rnd ((if fused then product else rnd product) + Q2R c)
  end.

(** * Multiples of 2^-120 *)

Definition value (z : Z) : R := IZR z / IZR (2 ^ 120).

(** A product, rounded down and up. *)
Definition times_down (x y : Z) : Z := Z.shiftr (x * y) 120.
Definition times_up (x y : Z) : Z := (times_down x y + 1)%Z.

Lemma value_add x y : value (x + y) = value x + value y.
Proof. unfold value. rewrite plus_IZR. unfold Rdiv. ring. Qed.

Lemma value_opp x : value (- x) = - value x.
Proof. unfold value. rewrite opp_IZR. unfold Rdiv. ring. Qed.

Lemma grid_pos : 0 < IZR (2 ^ 120).
Proof. apply IZR_lt. reflexivity. Qed.

Lemma value_le x y : (x <= y)%Z -> value x <= value y.
Proof.
  intros le. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, grid_pos | apply IZR_le, le].
Qed.

Lemma value_0 : value 0 = 0.
Proof. unfold value, Rdiv. ring. Qed.

Lemma times_bounds x y : value (times_down x y) <= value x * value y <= value (times_up x y).
Proof.
  unfold times_up, times_down. rewrite Z.shiftr_div_pow2 by lia.
  pose proof (Z.mul_div_le (x * y) (2 ^ 120) ltac:(reflexivity)) as lower.
  pose proof (Z.mul_succ_div_gt (x * y) (2 ^ 120) ltac:(reflexivity)) as upper.
  apply IZR_le in lower. apply Z.lt_le_incl in upper. apply IZR_le in upper. rewrite !mult_IZR in lower, upper.
  rewrite Z.add_1_r. unfold value. pose proof grid_pos as grid. set (B := IZR (2 ^ 120)) in *.
  replace (IZR x / B * (IZR y / B)) with (IZR x * IZR y / B / B) by (field; lra).
  split.
  - apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, grid |].
    apply (Rmult_le_reg_r B); [exact grid |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
  - apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, grid |].
    apply (Rmult_le_reg_r B); [exact grid |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(** A coefficient as a multiple of 2^-120, and whether it is one. *)
Definition fixed (c : Q) : Z := (Qnum c * 2 ^ 120 / Zpos (Qden c))%Z.
Definition is_fixed (c : Q) : bool := (fixed c * Zpos (Qden c) =? Qnum c * 2 ^ 120)%Z.

Lemma fixed_exact c : is_fixed c = true -> value (fixed c) = Q2R c.
Proof.
  unfold is_fixed. intros same. apply Z.eqb_eq in same. apply (f_equal IZR) in same. rewrite !mult_IZR in same.
  unfold value, Q2R. pose proof grid_pos as grid.
  assert (0 < IZR (Zpos (Qden c))) by (apply IZR_lt; reflexivity).
  apply (Rmult_eq_reg_r (IZR (2 ^ 120) * IZR (Zpos (Qden c)))); [| nra].
  transitivity (IZR (fixed c) * IZR (Zpos (Qden c))); [field; lra |]. rewrite same. field; lra.
Qed.

(** * Bounds on a piece *)

(** Bounds for all f of a piece [a, b]: the polynomial lies in [low, high], and what is computed errs by at most
    [error]. *)
Record bounds := { low : Z; high : Z; error : Z }.

Section Bounds.
Variables (u eta : Z) (fused : bool) (a b : Z).

(** The largest |f|. *)
Definition reach : Z := if (0 <=? a)%Z then b else (- a)%Z.

Definition step (c : Q) (s : bounds) : bounds :=
  let scaled := times_up (error s) reach in
  let product := if fused then scaled else (scaled + times_up u (times_up reach (high s) + scaled) + eta)%Z in
  let high' := (fixed c + (if (0 <=? b)%Z then times_up b (high s) else times_up b (low s)))%Z in
  {| low := (fixed c + (if (0 <=? a)%Z then times_down a (low s) else times_down a (high s)))%Z;
     high := high';
     error := (product + times_up u (high' + product) + eta)%Z |}.

Fixpoint horner_bounds (coefficients : list Q) : bounds :=
  match coefficients with
  | [] => {| low := 0; high := 0; error := 0 |}
  | c :: [] => {| low := fixed c; high := fixed c; error := 0 |}
  | c :: rest => step c (horner_bounds rest)
  end.

(** The coefficients are multiples of 2^-120, and no lower bound is negative on the way. *)
Fixpoint all_positive (coefficients : list Q) : bool :=
  match coefficients with
  | [] => true
  | c :: rest => is_fixed c && (0 <=? low (horner_bounds coefficients))%Z && all_positive rest
  end.

Variable rnd : R -> R.
Hypothesis rounding : forall x, Rabs (rnd x - x) <= value u * Rabs x + value eta.
Hypothesis u_pos : (0 <= u)%Z.
Hypothesis eta_pos : (0 <= eta)%Z.
Hypothesis one_sign : (0 <= a)%Z \/ (b <= 0)%Z.

Definition within_bounds (s : bounds) (p computed : R) : Prop :=
  value (low s) <= p <= value (high s) /\ Rabs (computed - p) <= value (error s).

Lemma nonneg z : (0 <= z)%Z -> 0 <= value z.
Proof. intros z0. rewrite <- value_0. now apply value_le. Qed.

Lemma nonpos z : (z <= 0)%Z -> value z <= 0.
Proof. intros z0. rewrite <- value_0. now apply value_le. Qed.

Lemma step_sound (c : Q) (s : bounds) (f p computed : R) :
  value a <= f <= value b -> is_fixed c = true -> (0 <= low s)%Z -> (0 <= low (step c s))%Z ->
  within_bounds s p computed ->
  within_bounds (step c s) (p * f + Q2R c) (rnd ((if fused then computed * f else rnd (computed * f)) + Q2R c)).
Proof using rounding u_pos eta_pos one_sign.
  intros [fa fb] exact_c positive positive' [[pl ph] near]. rewrite <- (fixed_exact c exact_c).
  apply nonneg in positive. apply nonneg in positive'.
  pose proof (nonneg u u_pos) as U. pose proof (nonneg eta eta_pos) as H.
  assert (far : Rabs f <= value reach).
  { unfold reach. destruct (Z.leb_spec 0 a) as [sign | sign].
    - apply nonneg in sign. apply Rabs_le; lra.
    - destruct one_sign as [bad | b0]; [lia |]. apply nonpos in b0. rewrite value_opp. apply Rabs_le; lra. }
  assert (reach0 : 0 <= value reach) by (eapply Rle_trans; [apply Rabs_pos | exact far]).
  set (scaled := times_up (error s) reach).
  assert (off : Rabs (computed * f - p * f) <= value scaled).
  { replace (computed * f - p * f) with ((computed - p) * f) by ring. rewrite Rabs_mult.
    eapply Rle_trans; [| apply (proj2 (times_bounds (error s) reach))].
    apply Rmult_le_compat; try apply Rabs_pos; assumption. }
  assert (size : Rabs (p * f) <= value (times_up reach (high s))).
  { eapply Rle_trans; [| apply (proj2 (times_bounds reach (high s)))].
    rewrite Rabs_mult, Rmult_comm. apply Rmult_le_compat; try apply Rabs_pos; [exact far |]. rewrite Rabs_right; lra. }
  set (product := if fused then scaled else (scaled + times_up u (times_up reach (high s) + scaled) + eta)%Z).
  set (multiplied := if fused then computed * f else rnd (computed * f)).
  assert (after_product : Rabs (multiplied - p * f) <= value product).
  { unfold multiplied, product. destruct fused; [exact off |].
    replace (rnd (computed * f) - p * f) with ((rnd (computed * f) - computed * f) + (computed * f - p * f)) by ring.
    eapply Rle_trans; [apply Rabs_triang |]. pose proof (rounding (computed * f)) as rounded.
    assert (Rabs (computed * f) <= value (times_up reach (high s) + scaled)).
    { replace (computed * f) with (p * f + (computed * f - p * f)) by ring. rewrite value_add.
      eapply Rle_trans; [apply Rabs_triang | lra]. }
    assert (value u * Rabs (computed * f) <= value u * value (times_up reach (high s) + scaled))
      by (apply Rmult_le_compat_l; assumption).
    pose proof (proj2 (times_bounds u (times_up reach (high s) + scaled))). rewrite !(value_add _ eta), value_add. lra. }
  assert (lower : value (low (step c s)) <= p * f + value (fixed c)).
  { unfold step; cbn [low]. rewrite value_add. destruct (Z.leb_spec 0 a) as [sign | sign].
    - apply nonneg in sign. pose proof (proj1 (times_bounds a (low s))). nra.
    - apply Z.lt_le_incl, nonpos in sign. pose proof (proj1 (times_bounds a (high s))). nra. }
  assert (upper : p * f + value (fixed c) <= value (high (step c s))).
  { unfold step; cbn [high]. rewrite value_add. destruct (Z.leb_spec 0 b) as [sign | sign].
    - apply nonneg in sign. pose proof (proj2 (times_bounds b (high s))). nra.
    - apply Z.lt_le_incl, nonpos in sign. pose proof (proj2 (times_bounds b (low s))). nra. }
  split; [split; assumption |].
  set (top := high (step c s)) in *.
  change (error (step c s)) with (product + times_up u (top + product) + eta)%Z.
  rewrite !value_add. pose proof (proj2 (times_bounds u (top + product))) as last_product.
  replace (rnd (multiplied + value (fixed c)) - (p * f + value (fixed c)))
    with ((rnd (multiplied + value (fixed c)) - (multiplied + value (fixed c))) + (multiplied - p * f)) by ring.
  eapply Rle_trans; [apply Rabs_triang |]. pose proof (rounding (multiplied + value (fixed c))) as rounded.
  assert (Rabs (multiplied + value (fixed c)) <= value (top + product)).
  { replace (multiplied + value (fixed c)) with ((p * f + value (fixed c)) + (multiplied - p * f)) by ring.
    rewrite value_add. eapply Rle_trans; [apply Rabs_triang |]. rewrite (Rabs_right (p * f + value (fixed c))); lra. }
  assert (value u * Rabs (multiplied + value (fixed c)) <= value u * value (top + product))
    by (apply Rmult_le_compat_l; assumption).
  lra.
Qed.

Lemma horner_bounds_sound (coefficients : list Q) (f : R) :
  value a <= f <= value b -> all_positive coefficients = true ->
  within_bounds (horner_bounds coefficients) (horner coefficients f) (rounded_horner rnd fused coefficients f).
Proof using rounding u_pos eta_pos one_sign.
  intros range. induction coefficients as [| c rest IH]; intros positive.
  - unfold within_bounds. cbn [horner rounded_horner horner_bounds low high error].
    rewrite value_0, Rminus_0_r, Rabs_R0. lra.
  - cbn [all_positive] in positive. apply andb_prop in positive as [here further].
    apply andb_prop in here as [exact_c here]. specialize (IH further). destruct rest as [| c' rest].
    + unfold within_bounds. cbn [horner rounded_horner horner_bounds low high error].
      rewrite (fixed_exact c exact_c), value_0, Rminus_diag_eq, Rabs_R0 by reflexivity. lra.
    + apply (step_sound c (horner_bounds (c' :: rest))); [exact range | exact exact_c | | | exact IH].
      * cbn [all_positive] in further. apply andb_prop in further as [next _]. apply andb_prop in next as [_ next].
        now apply Z.leb_le.
      * now apply Z.leb_le.
Qed.
End Bounds.

(** * All pieces *)

(** Whether the relative error on a piece is at most [limit] thousandths of 2^-prec, where p is within [near] thousandths
    of 2^-prec of 2^f. *)
Definition piece_ok (prec eta limit near : Z) (fused : bool) (coefficients : list Q) (a b : Z) : bool :=
  let u := (2 ^ (120 - prec))%Z in
  let s := horner_bounds u eta fused a b coefficients in
  ((0 <=? a)%Z || (b <=? 0)%Z) && all_positive u eta fused a b coefficients
  && (error s * (1000 * 2 ^ prec + near) <=? (limit - near) * low s)%Z.

(** The ends of the pieces, in 256ths: they are shorter towards -1/2, where the bound is closest to its limit. *)
Definition ends : list Z := [-128; -126; -122; -114; -98; -66; -2; 0; 64; 128]%Z.

Definition cut (k : Z) : Z := (k * 2 ^ 112)%Z.

(** Whether a check passes for every two consecutive ends. *)
Fixpoint consecutive (check : Z -> Z -> bool) (cuts : list Z) : bool :=
  match cuts with
  | a :: ((b :: _) as rest) => check (cut a) (cut b) && consecutive check rest
  | _ => true
  end.

Definition all_pieces (prec eta limit near : Z) (fused : bool) (coefficients : list Q) : bool :=
  consecutive (piece_ok prec eta limit near fused coefficients) ends.

Lemma value_cut k : value (cut k) = IZR k / 256.
Proof.
  unfold cut, value. rewrite mult_IZR.
  change (2 ^ 120)%Z with (2 ^ 112 * 256)%Z. rewrite mult_IZR.
  assert (0 < IZR (2 ^ 112)) by (apply IZR_lt; reflexivity). set (B := IZR (2 ^ 112)) in *. field. lra.
Qed.

Lemma find_piece (check : Z -> Z -> bool) (rest : list Z) : forall (a : Z) (f : R),
  rest <> [] -> consecutive check (a :: rest) = true -> value (cut a) <= f <= value (cut (last rest a)) ->
  exists c d, check (cut c) (cut d) = true /\ value (cut c) <= f <= value (cut d).
Proof.
  induction rest as [| b rest IH]; intros a f some passed [lower upper]; [easy |].
  cbn [consecutive] in passed. apply andb_prop in passed as [here further].
  destruct (Rle_lt_dec f (value (cut b))) as [inside | beyond]; [exists a, b; auto |].
  destruct rest as [| c rest]; [cbn [last] in upper; lra |].
  apply (IH b f); [discriminate | exact further |]. split; [lra |].
  replace (last (c :: rest) b) with (last (b :: c :: rest) a); [exact upper |].
  cbn [last]. clear. revert c. induction rest as [| d rest IH]; intros c; [reflexivity | exact (IH d)].
Qed.

(** If all pieces pass, the computed power errs by at most [limit] thousandths of 2^-prec, relative to 2^f. *)
Lemma all_pieces_sound (prec eta limit near : Z) (fused : bool) (coefficients : list Q) (rnd : R -> R) (f : R) :
  (0 < prec <= 120)%Z -> (0 <= eta)%Z -> (0 <= near <= limit)%Z ->
  (forall x, Rabs (rnd x - x) <= value (2 ^ (120 - prec)) * Rabs x + value eta) ->
  all_pieces prec eta limit near fused coefficients = true ->
  -1 / 2 <= f <= 1 / 2 ->
  Rabs (horner coefficients f * exp (- (f * ln 2)) - 1) <= IZR near / (1000 * IZR (2 ^ prec)) ->
  Rabs (rounded_horner rnd fused coefficients f - exp (f * ln 2)) <=
    IZR limit / (1000 * IZR (2 ^ prec)) * exp (f * ln 2).
Proof.
  intros prec0 eta0 [near0 gap] rounding passed range approximated.
  destruct (find_piece _ (tl ends) (hd 0%Z ends) f ltac:(discriminate) passed) as [k [m [checked inside]]].
  { cbn [tl hd ends last]. rewrite !value_cut. lra. }
  clear passed. rename checked into passed. unfold piece_ok in passed.
  apply andb_prop in passed as [passed final]. apply andb_prop in passed as [sign positive].
  apply orb_prop in sign.
  assert (one_sign : (0 <= cut k)%Z \/ (cut m <= 0)%Z)
    by (destruct sign as [sign | sign]; apply Z.leb_le in sign; auto).
  destruct (horner_bounds_sound (2 ^ (120 - prec)) eta fused (cut k) (cut m) rnd rounding ltac:(lia) eta0 one_sign
              coefficients f inside positive) as [[lower _] near_exact].
  set (s := horner_bounds (2 ^ (120 - prec)) eta fused (cut k) (cut m) coefficients) in *.
  apply Z.leb_le, IZR_le in final. rewrite !mult_IZR, plus_IZR, mult_IZR, minus_IZR in final.
  apply IZR_le in near0. apply IZR_le in gap.
  set (p := horner coefficients f) in *. set (P := rounded_horner rnd fused coefficients f) in *.
  set (power := exp (f * ln 2)). assert (power0 : 0 < power) by apply exp_pos.
  set (unit := 1000 * IZR (2 ^ prec)) in *.
  assert (unit0 : 0 < unit) by (apply Rmult_lt_0_compat; [lra | apply IZR_lt, Z.pow_pos_nonneg; lia]).
  assert (inverse : exp (- (f * ln 2)) * power = 1) by (unfold power; rewrite <- exp_plus, Rplus_opp_l; apply exp_0).
  assert (scaled : Rabs (p - power) <= IZR near / unit * power).
  { replace (p - power) with ((p * exp (- (f * ln 2)) - 1) * power)
      by (rewrite Rmult_minus_distr_r, Rmult_assoc, inverse; ring).
    rewrite Rabs_mult, (Rabs_right power) by lra. apply Rmult_le_compat_r; lra. }
  assert (below : p <= (1 + IZR near / unit) * power)
    by (unfold Rabs in scaled; destruct (Rcase_abs (p - power)); lra).
  replace (P - power) with ((P - p) + (p - power)) by ring.
  eapply Rle_trans; [apply Rabs_triang |].
  enough (value (error s) <= (IZR limit - IZR near) / unit * power) by (unfold Rdiv in *; lra).
  apply (Rmult_le_reg_r (unit + IZR near)); [lra |].
  apply Rle_trans with ((IZR limit - IZR near) * value (low s)).
  - unfold value, Rdiv. rewrite <- Rmult_assoc, Rmult_assoc, (Rmult_comm (/ _)), <- Rmult_assoc.
    apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, grid_pos | exact final].
  - replace ((IZR limit - IZR near) / unit * power * (unit + IZR near))
      with ((IZR limit - IZR near) * ((1 + IZR near / unit) * power)) by (field; lra).
    apply Rmult_le_compat_l; lra.
Qed.

(** * The two formats *)

(** Rounding to nearest, ties to even, in a binary format. *)
Definition nearest (emin prec : Z) : R -> R := round radix2 (FLT_exp emin prec) ZnearestE.

(** binary32, and binary64. *)
Definition round_float : R -> R := nearest (-149) 24.
Definition round_double : R -> R := nearest (-1074) 53.

(** |rnd x - x| <= 2^-prec |x| + 2^-120, where 2^-120 is more than underflow takes. *)
Lemma nearest_error (emin prec : Z) :
  (0 < prec <= 120)%Z -> (emin <= -119)%Z ->
  forall x, Rabs (nearest emin prec x - x) <= value (2 ^ (120 - prec)) * Rabs x + value 1.
Proof.
  intros prec0 emin0 x.
  destruct (error_N_FLT radix2 emin prec ltac:(lia) (fun n => negb (Z.even n)) x) as [e [h [He [Hh [_ rounded]]]]].
  unfold nearest. rewrite rounded.
  replace (x * (1 + e) + h - x) with (e * x + h) by ring.
  assert (half : forall k, / 2 * bpow radix2 k = bpow radix2 (-1 + k)) by (intros k; rewrite bpow_plus; reflexivity).
  rewrite half in He, Hh.
  assert (grid : IZR (2 ^ 120) = bpow radix2 120) by reflexivity.
  assert (unit : value (2 ^ (120 - prec)) = bpow radix2 (-1 + (- prec + 1))).
  { unfold value, Rdiv. rewrite grid, <- bpow_opp. change 2%Z with (radix_val radix2). rewrite IZR_Zpower by lia.
    rewrite <- bpow_plus. f_equal. lia. }
  assert (tiny : value 1 = bpow radix2 (-120)) by (unfold value, Rdiv; rewrite grid, <- bpow_opp; apply Rmult_1_l).
  eapply Rle_trans; [apply Rabs_triang |]. rewrite Rabs_mult, unit, tiny.
  apply Rplus_le_compat.
  - apply Rmult_le_compat_r; [apply Rabs_pos | exact He].
  - eapply Rle_trans; [exact Hh |]. apply bpow_le. lia.
Qed.

(** 2.4 units, relative, where p errs by 0.37 units (float) or 0.385 units (double): with and without fused
    multiply-adds. *)
Lemma float_pieces (fused : bool) : all_pieces 24 1 2400 370 fused float_coefficients = true.
Proof. destruct fused; vm_compute; reflexivity. Qed.

Lemma double_pieces (fused : bool) : all_pieces 53 1 2400 385 fused double_coefficients = true.
Proof. destruct fused; vm_compute; reflexivity. Qed.
