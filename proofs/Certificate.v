(** The bound on the error of near-linear attention.

    A query attends the key tuples of a list. Tuple t has the score [s t] and the value [v t] in one column; the exact
    output is the average of the values with the weights exp (s t). The near-linear algorithm replaces exp (s t) by
    [a t] and computes a numerator N and a denominator D, with rounding errors. The documents derive the bounds below on
    the page "Near-linear attention with a certificate". *)

From Coq Require Import Reals List Lra.
From Separatrix Require Import FiniteSums.
Import ListNotations.
Open Scope R_scope.

Section Query.
Context {tuple : Type} (tuples : list tuple).
Hypothesis attends : tuples <> [].

(** sum_t exp (s_t) *)
Definition denominator (s : tuple -> R) : R := sum tuples (fun t => exp (s t)).

(** o = sum_t exp (s_t) v_t / sum_t exp (s_t) *)
Definition output (s v : tuple -> R) : R := sum tuples (fun t => exp (s t) * v t) / denominator s.

(** p_t = exp (s_t) / sum_u exp (s_u) *)
Definition softmax (s : tuple -> R) (t : tuple) : R := exp (s t) / denominator s.

(** The sum of the errors of the weights, sum_t |a_t - exp (s_t)|. *)
Definition weight_error (s a : tuple -> R) : R := sum tuples (fun t => Rabs (a t - exp (s t))).

Lemma denominator_pos (s : tuple -> R) : 0 < denominator s.
Proof using attends. apply sum_pos; [exact attends | intros; apply exp_pos]. Qed.

(** The exact output is an average of the values, so that the weighted deviations from it cancel. *)
Lemma deviations_cancel (s v : tuple -> R) : sum tuples (fun t => exp (s t) * (v t - output s v)) = 0.
Proof using attends.
  rewrite (sum_ext _ _ (fun t => exp (s t) * v t - exp (s t) * output s v)) by (intros; ring).
  rewrite sum_minus, sum_mult_r. fold (denominator s). unfold output. field.
  apply Rgt_not_eq, denominator_pos.
Qed.

(** The exact output lies between the smallest and the largest value. *)
Lemma output_between (s v : tuple -> R) (low high : R) :
  (forall t, In t tuples -> low <= v t <= high) -> low <= output s v <= high.
Proof using attends.
  intros range. pose proof (denominator_pos s) as positive. unfold output.
  assert (low * denominator s <= sum tuples (fun t => exp (s t) * v t) <= high * denominator s) as [lower upper].
  { unfold denominator. rewrite <- !sum_mult_l.
    split; apply sum_le; intros t Ht; specialize (range t Ht); pose proof (exp_pos (s t)); nra. }
  split.
  - apply (Rmult_le_reg_r (denominator s)); [exact positive |]. unfold Rdiv.
    rewrite Rmult_assoc, Rinv_l; lra.
  - apply (Rmult_le_reg_r (denominator s)); [exact positive |]. unfold Rdiv.
    rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(** What separates the computed numerator and denominator from the exact output. *)
Theorem certificate_identity (s a v : tuple -> R) (N D : R) :
  D * output s v - N =
    sum tuples (fun t => (exp (s t) - a t) * (v t - output s v))
    + (D - sum tuples a) * output s v
    + (sum tuples (fun t => a t * v t) - N).
Proof using attends.
  pose proof (deviations_cancel s v) as cancel. set (o := output s v) in *.
  rewrite (sum_ext _ (fun t => (exp (s t) - a t) * (v t - o))
             (fun t => exp (s t) * (v t - o) - (a t * v t - a t * o))) by (intros; ring).
  rewrite !sum_minus, cancel, sum_mult_r. ring.
Qed.

(** |N / D - o| <= (E (max v - min v) + 2 rho |v|_max) / D: the inequality that every certificate rests on. Nothing
    is assumed of the exact denominator. *)
Theorem certificate_bound (s a v : tuple -> R) (N D E rho low high largest : R) :
  (forall t, In t tuples -> low <= v t <= high) ->
  (forall t, In t tuples -> Rabs (v t) <= largest) ->
  weight_error s a <= E ->
  Rabs (N - sum tuples (fun t => a t * v t)) <= rho * largest ->
  Rabs (D - sum tuples a) <= rho ->
  0 < D ->
  Rabs (N / D - output s v) <= (E * (high - low) + 2 * rho * largest) / D.
Proof using attends.
  intros range magnitude error numerator normaliser positive.
  pose proof (certificate_identity s a v N D) as identity.
  pose proof (output_between s v low high range) as between.
  assert (inside : Rabs (output s v) <= largest).
  { assert (- largest <= output s v <= largest); [| apply Rabs_le; lra].
    apply output_between. intros t Ht. specialize (magnitude t Ht).
    unfold Rabs in magnitude; destruct (Rcase_abs (v t)); lra. }
  set (o := output s v) in *.
  assert (first : Rabs (sum tuples (fun t => (exp (s t) - a t) * (v t - o))) <= E * (high - low)).
  { eapply Rle_trans; [apply sum_abs |].
    apply Rle_trans with (weight_error s a * (high - low)).
    - unfold weight_error. rewrite <- sum_mult_r. apply sum_le; intros t Ht.
      rewrite Rabs_mult, (Rabs_minus_sym (exp (s t))).
      apply Rmult_le_compat_l; [apply Rabs_pos |]. specialize (range t Ht). apply Rabs_le; lra.
    - apply Rmult_le_compat_r; lra. }
  assert (second : Rabs ((D - sum tuples a) * o) <= rho * largest).
  { rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; assumption. }
  replace (N / D - o) with (- (D * o - N) / D) by (field; lra).
  unfold Rdiv at 1. rewrite Rabs_mult, Rabs_Ropp, (Rabs_right (/ D)) by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat; lra).
  apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra |].
  rewrite identity.
  eapply Rle_trans; [apply Rabs_triang |].
  eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang |].
  rewrite (Rabs_minus_sym (sum tuples (fun t => a t * v t))). lra.
Qed.

(** The computed denominator errs by at most E + rho. *)
Lemma denominator_error (s a : tuple -> R) (D E rho : R) :
  weight_error s a <= E -> Rabs (D - sum tuples a) <= rho -> Rabs (D - denominator s) <= E + rho.
Proof.
  intros error normaliser.
  replace (D - denominator s) with ((D - sum tuples a) + sum tuples (fun t => a t - exp (s t)))
    by (rewrite sum_minus; unfold denominator; ring).
  eapply Rle_trans; [apply Rabs_triang |].
  pose proof (sum_abs tuples (fun t => a t - exp (s t))). unfold weight_error in error. lra.
Qed.

Lemma ln_increment (x y : R) : 0 < x -> 0 < y -> ln x - ln y <= (x - y) / y.
Proof.
  intros x0 y0.
  assert (ratio : 0 < x / y) by (apply Rdiv_lt_0_compat; assumption).
  replace (ln x - ln y) with (ln (x / y)) by (unfold Rdiv; rewrite ln_mult, ln_Rinv;
    [ring | assumption | assumption | apply Rinv_0_lt_compat; assumption]).
  pose proof (exp_ineq1_le (ln (x / y))) as bound. rewrite exp_ln in bound by assumption.
  replace ((x - y) / y) with (x / y - 1) by (field; lra). lra.
Qed.

(** The error of the log-sum-exp is at most (E + rho) / (D - E - rho). *)
Theorem certificate_log_sum_exp (s a : tuple -> R) (D E rho : R) :
  weight_error s a <= E ->
  Rabs (D - sum tuples a) <= rho ->
  E + rho < D ->
  Rabs (ln D - ln (denominator s)) <= (E + rho) / (D - E - rho).
Proof using attends.
  intros error normaliser above.
  pose proof (denominator_error s a D E rho error normaliser) as off.
  pose proof (denominator_pos s) as positive.
  assert (0 <= E + rho) by (eapply Rle_trans; [apply Rabs_pos | exact off]).
  assert (bounds : - (E + rho) <= D - denominator s <= E + rho)
    by (unfold Rabs in off; destruct (Rcase_abs (D - denominator s)); lra).
  assert (step : forall x y, 0 < D - E - rho <= y -> 0 < x -> x - y <= E + rho ->
                             ln x - ln y <= (E + rho) / (D - E - rho)).
  { intros x y [d0 dy] x0 xy. eapply Rle_trans; [apply ln_increment; lra |].
    apply Rle_trans with ((E + rho) / y).
    - apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra | exact xy].
    - apply Rmult_le_compat_l; [assumption |]. apply Rinv_le_contravar; lra. }
  apply Rabs_le. split.
  - enough (ln (denominator s) - ln D <= (E + rho) / (D - E - rho)) by lra.
    apply step; lra.
  - apply step; lra.
Qed.

Lemma exp_drift (x y eta : R) : Rabs (x - y) <= eta -> Rabs (exp x - exp y) <= (exp eta - 1) * exp x.
Proof.
  intros near.
  assert (close : - eta <= x - y <= eta) by (unfold Rabs in near; destruct (Rcase_abs (x - y)); lra).
  assert (upper : exp y <= exp eta * exp x).
  { rewrite <- exp_plus. destruct (Req_dec y (eta + x)) as [-> | other]; [lra |].
    left; apply exp_increasing; lra. }
  assert (lower : exp (- eta) * exp x <= exp y).
  { rewrite <- exp_plus. destruct (Req_dec y (- eta + x)) as [-> | other]; [lra |].
    left; apply exp_increasing; lra. }
  assert (2 <= exp eta + exp (- eta)).
  { pose proof (exp_ineq1_le eta). pose proof (exp_ineq1_le (- eta)). lra. }
  pose proof (exp_pos x). apply Rabs_le. nra.
Qed.

(** Where the scores s' that are expanded differ from the given ones by at most eta, the error of the weights grows by
    (e^eta - 1) (D + E + rho). *)
Theorem certificate_drift (s s' a : tuple -> R) (D E rho eta : R) :
  (forall t, In t tuples -> Rabs (s' t - s t) <= eta) ->
  weight_error s' a <= E ->
  Rabs (D - sum tuples a) <= rho ->
  weight_error s a <= E + (exp eta - 1) * (D + E + rho).
Proof using attends.
  intros near error normaliser.
  assert (eta0 : 0 <= eta).
  { destruct tuples as [| t rest]; [easy |].
    eapply Rle_trans; [apply Rabs_pos | apply (near t); now left]. }
  assert (1 <= exp eta) by (pose proof (exp_ineq1_le eta); lra).
  pose proof (denominator_error s' a D E rho error normaliser) as off.
  assert (denominator s' <= D + E + rho) by (unfold Rabs in off; destruct (Rcase_abs (D - denominator s')); lra).
  assert (moved : sum tuples (fun t => Rabs (exp (s' t) - exp (s t))) <= (exp eta - 1) * denominator s').
  { unfold denominator. rewrite <- sum_mult_l. apply sum_le; intros t Ht. now apply exp_drift, near. }
  apply Rle_trans with (weight_error s' a + sum tuples (fun t => Rabs (exp (s' t) - exp (s t)))).
  - unfold weight_error. rewrite <- sum_plus. apply sum_le; intros t _.
    replace (a t - exp (s t)) with ((a t - exp (s' t)) + (exp (s' t) - exp (s t))) by ring. apply Rabs_triang.
  - nra.
Qed.

(** The weights of the backward pass: sum_t |a'_t / D - p_t| <= (E' + E + rho) / D, where a' replaces exp (s) where a
    score is differentiated and E' bounds its error. With a' = a this is (2 E + rho) / D, for the gradients of values. *)
Theorem certificate_weights (s a a' : tuple -> R) (D E E' rho : R) :
  weight_error s a <= E ->
  weight_error s a' <= E' ->
  Rabs (D - sum tuples a) <= rho ->
  0 < D ->
  sum tuples (fun t => Rabs (a' t / D - softmax s t)) <= (E' + E + rho) / D.
Proof using attends.
  intros error error' normaliser positive.
  pose proof (denominator_pos s) as exact.
  pose proof (denominator_error s a D E rho error normaliser) as off.
  assert (inverse : 0 < / D) by (apply Rinv_0_lt_compat; lra).
  apply Rle_trans with ((weight_error s a' + Rabs (D - denominator s)) * / D).
  - rewrite Rmult_plus_distr_r. unfold weight_error. rewrite <- sum_mult_r.
    replace (Rabs (D - denominator s) * / D)
      with (sum tuples (fun t => softmax s t * (Rabs (D - denominator s) * / D))).
    + rewrite <- sum_plus. apply sum_le; intros t _.
      replace (a' t / D - softmax s t)
        with ((a' t - exp (s t)) * / D + softmax s t * ((denominator s - D) * / D))
        by (unfold softmax; field; lra).
      eapply Rle_trans; [apply Rabs_triang |].
      rewrite !Rabs_mult, (Rabs_right (/ D)) by lra.
      assert (0 < softmax s t) by (apply Rdiv_lt_0_compat; [apply exp_pos | exact exact]).
      rewrite (Rabs_right (softmax s t)), (Rabs_minus_sym (denominator s)) by lra. lra.
    + rewrite sum_mult_r. unfold softmax. unfold Rdiv. rewrite sum_mult_r. fold (denominator s). field; lra.
  - unfold Rdiv. apply Rmult_le_compat_r; lra.
Qed.
End Query.
