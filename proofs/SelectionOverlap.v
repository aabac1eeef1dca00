(** A counterexample to Corollary E.16 of Wang, Wei, Hsu and Lee, "Transformers Provably Learn Sparse Token Selection While
    Fully-Connected Nets Cannot".

    The corollary says that the trained transformer has a small loss with every positional encoding that satisfies the
    (q, delta)-restricted isometry and orthogonality property, delta < 1/10. Its proof needs that an encoding outside of
    the subset has an inner product below 1 with the code of the subset. With q = 256 and T = 1025 there is an encoding
    with delta < 1/10 whose inner product is above 1.12, so that the attention moves to the wrong token as training goes
    on. *)

From Coq Require Import Reals List Lra Lia Arith Bool.
From Separatrix Require Import FiniteSums.
Import ListNotations.
Open Scope R_scope.

Definition vector := nat -> R.

(** An encoding of T positions: coordinate k of the encoding of position i. *)
Definition encoding := nat -> nat -> R.

Definition inner (width : nat) (x y : vector) : R := sum_upto width (fun k => x k * y k).

Definition column (E : encoding) (i : nat) : vector := fun k => E k i.

(** E v *)
Definition apply (T : nat) (E : encoding) (v : vector) : vector := fun k => sum_upto T (fun i => E k i * v i).

Definition nonzero (x : R) : bool := if Req_EM_T x 0 then false else true.

Definition support (T : nat) (v : vector) : list nat := filter (fun i => nonzero (v i)) (seq 0 T).

(** Definition A.1, the (q, delta)-restricted isometry and orthogonality property. *)
Definition restricted_isometry (width T q : nat) (delta : R) (E : encoding) : Prop :=
  forall v v' : vector,
    (length (support T v) <= q)%nat ->
    (length (support T v') <= 2 * q)%nat ->
    (forall i, (i < T)%nat -> v i = 0 \/ v' i = 0) ->
    (1 - delta) * inner T v v <= inner width (apply T E v) (apply T E v) <= (1 + delta) * inner T v v /\
    Rabs (inner width (apply T E v) (apply T E v')) <= delta * sqrt (inner T v v) * sqrt (inner T v' v').

(** e_y = E_y (E_y^T E_y)^{-1} 1: the combination of the encodings of y that has the inner product 1 with each of them. *)
Definition subset_code (width : nat) (E : encoding) (y : list nat) (e : vector) : Prop :=
  (exists u : vector, forall k, (k < width)%nat -> e k = sum y (fun i => u i * E k i)) /\
  (forall i, In i y -> inner width (column E i) e = 1).

(** A subset of q of the first n positions. *)
Definition subset (n q : nat) (y : list nat) : Prop :=
  NoDup y /\ length y = q /\ (forall i, In i y -> (i < n)%nat).

(** softmax (C E^T e)_i *)
Definition attention (width T : nat) (E : encoding) (e : vector) (C : R) (i : nat) : R :=
  exp (C * inner width (column E i) e) / sum_upto T (fun j => exp (C * inner width (column E j) e)).

(** |Y / q - alpha S_y|^2. The loss of the transformer on the subset y, with tokens of dimension d, is d / 2 times this. *)
Definition selection_error (width T q : nat) (E : encoding) (e : vector) (y : list nat) (alpha C : R) : R :=
  sum_upto T (fun i =>
    let target := if in_dec Nat.eq_dec i y then 1 / INR q else 0 in
    (target - alpha * attention width T E e C i) * (target - alpha * attention width T E e C i)).

(** n orthonormal encodings, and one of norm 1 that has the inner product c with each of them. *)
Definition leaning (n : nat) (c : R) : encoding := fun k i =>
  if (i <? n)%nat then (if (k =? i)%nat then 1 else 0)
  else (if (k <? n)%nat then c else sqrt (1 - INR n * (c * c))).

Section Leaning.
Variables (n : nat) (c : R).
Hypothesis c_pos : 0 <= c.
Hypothesis fits : INR n * (c * c) <= 1.
Let E := leaning n c.

Lemma sum_delta (m k : nat) (f : nat -> R) :
  sum_upto m (fun i => (if (k =? i)%nat then 1 else 0) * f i) = if (k <? m)%nat then f k else 0.
Proof.
  induction m as [| m IH]; [reflexivity |]. rewrite sum_upto_S, IH.
  destruct (Nat.ltb_spec k m), (Nat.ltb_spec k (S m)), (Nat.eqb_spec k m); try lia; subst; lra.
Qed.

Lemma apply_low v k : (k < n)%nat -> apply (S n) E v k = v k + c * v n.
Proof.
  intros low. unfold apply. rewrite sum_upto_S. f_equal.
  - rewrite (sum_upto_ext n _ (fun i => (if (k =? i)%nat then 1 else 0) * v i)).
    + rewrite sum_delta. destruct (Nat.ltb_spec k n); [reflexivity | lia].
    + intros i Hi. unfold E, leaning. destruct (Nat.ltb_spec i n); [reflexivity | lia].
  - unfold E, leaning. destruct (Nat.ltb_spec n n); [lia |]. destruct (Nat.ltb_spec k n); [reflexivity | lia].
Qed.

Lemma apply_last v : apply (S n) E v n = sqrt (1 - INR n * (c * c)) * v n.
Proof.
  unfold apply. rewrite sum_upto_S.
  rewrite (sum_upto_ext n _ (fun i => (if (n =? i)%nat then 1 else 0) * v i)).
  - rewrite sum_delta. unfold E, leaning. destruct (Nat.ltb_spec n n); [lia | lra].
  - intros i Hi. unfold E, leaning. destruct (Nat.ltb_spec i n); [reflexivity | lia].
Qed.

(** <E v, E v'> = <v, v'> + c (v_n sum v'_k + v'_n sum v_k), the sums over k < n. *)
Lemma inner_apply v v' :
  inner (S n) (apply (S n) E v) (apply (S n) E v') =
  inner (S n) v v' + c * (v n * sum_upto n v' + v' n * sum_upto n v).
Proof using fits.
  unfold inner. rewrite !sum_upto_S, !apply_last.
  rewrite (sum_upto_ext n _ (fun k =>
    v k * v' k + (c * v' n * v k + (c * v n * v' k + c * v n * (c * v' n))))).
  - unfold sum_upto. rewrite !sum_plus, (sum_mult_l _ (c * v' n) v), (sum_mult_l _ (c * v n) v'), sum_const, seq_length.
    replace (sqrt (1 - INR n * (c * c)) * v n * (sqrt (1 - INR n * (c * c)) * v' n))
      with ((sqrt (1 - INR n * (c * c)) * sqrt (1 - INR n * (c * c))) * (v n * v' n)) by ring.
    rewrite sqrt_sqrt by lra. ring.
  - intros k Hk. rewrite !apply_low by exact Hk. ring.
Qed.

Lemma sum_filter (l : list nat) (f : nat -> R) (keep : nat -> bool) :
  (forall i, In i l -> keep i = false -> f i = 0) -> sum (filter keep l) f = sum l f.
Proof.
  induction l as [| i l IH]; intros zero; [reflexivity |]. simpl.
  destruct (keep i) eqn:kept; simpl.
  - rewrite IH; [reflexivity |]. intros j Hj; apply zero; now right.
  - rewrite IH, (zero i); [ring | now left | exact kept |]. intros j Hj; apply zero; now right.
Qed.

(** (sum v_k)^2 <= |supp v| sum v_k^2 over k < n. *)
Lemma sum_of_sparse (v : vector) (q : nat) :
  (length (support (S n) v) <= q)%nat ->
  sum_upto n v * sum_upto n v <= INR q * sum_upto n (fun k => v k * v k).
Proof.
  intros sparse. unfold sum_upto. set (keep := fun i => nonzero (v i)).
  assert (zero : forall i, keep i = false -> v i = 0).
  { intros i. unfold keep, nonzero. destruct (Req_EM_T (v i) 0); [trivial | discriminate]. }
  rewrite <- (sum_filter (seq 0 n) v keep) by (intros; now apply zero).
  rewrite <- (sum_filter (seq 0 n) (fun k => v k * v k) keep) by (intros i _ H; rewrite (zero i H); ring).
  set (l := filter keep (seq 0 n)).
  assert (shorter : (length l <= q)%nat).
  { unfold support in sparse. rewrite seq_S, filter_app, app_length in sparse. fold keep in sparse.
    unfold l. lia. }
  pose proof (cauchy_schwarz l v (fun _ => 1)) as bound. cbv beta in bound.
  rewrite (sum_ext l (fun i => v i * 1) v) in bound by (intros; ring).
  rewrite (sum_ext l (fun _ => 1 * 1) (fun _ => 1)) in bound by (intros; ring).
  rewrite sum_const in bound.
  eapply Rle_trans; [exact bound |].
  assert (0 <= sum l (fun k => v k * v k)) by (apply sum_nonneg; intros; apply Rle_0_sqr).
  assert (INR (length l) <= INR q) by (apply le_INR; exact shorter). nra.
Qed.

Lemma inner_self_nonneg m v : 0 <= inner m v v.
Proof. apply sum_nonneg; intros; apply Rle_0_sqr. Qed.

Lemma inner_split v : inner (S n) v v = sum_upto n (fun k => v k * v k) + v n * v n.
Proof. unfold inner. now rewrite sum_upto_S. Qed.

Lemma abs_le_sqrt (x y : R) : x * x <= y -> Rabs x <= sqrt y.
Proof.
  intros square. rewrite <- sqrt_Rsqr_abs. apply sqrt_le_1_alt. unfold Rsqr. exact square.
Qed.

(** |v_n sum_{k < n} v'_k| <= sqrt q |v| |v'| for v' of at most q entries. *)
Lemma cross_term (v v' : vector) (q : nat) :
  (length (support (S n) v') <= q)%nat ->
  Rabs (v n * sum_upto n v') <= sqrt (INR q) * (sqrt (inner (S n) v v) * sqrt (inner (S n) v' v')).
Proof.
  intros sparse. rewrite <- !sqrt_mult; try apply inner_self_nonneg; try apply pos_INR.
  2: apply Rmult_le_pos; apply inner_self_nonneg.
  apply abs_le_sqrt. pose proof (sum_of_sparse v' q sparse) as bound.
  rewrite !inner_split. set (a := v n) in *. set (S' := sum_upto n v') in *.
  set (W' := sum_upto n (fun k => v' k * v' k)) in *. set (W := sum_upto n (fun k => v k * v k)).
  assert (0 <= W) by (apply sum_nonneg; intros; apply Rle_0_sqr).
  assert (0 <= W') by (apply sum_nonneg; intros; apply Rle_0_sqr).
  pose proof (pos_INR q). set (b := v' n).
  assert (0 <= a * a) by apply Rle_0_sqr. assert (0 <= b * b) by apply Rle_0_sqr.
  apply Rle_trans with (a * a * (INR q * W')); [nra |].
  apply Rle_trans with (INR q * (a * a * W')); [lra |].
  apply Rmult_le_compat_l; [assumption |]. nra.
Qed.

(** The encoding has the (q, c sqrt(2 q))-property. *)
Theorem selection_corollary_e_16_isometry (q : nat) : restricted_isometry (S n) (S n) q (c * sqrt (INR (2 * q))) E.
Proof using c_pos fits.
  intros v v' sparse sparse' disjoint.
  assert (roots : sqrt (INR q) <= sqrt (INR (2 * q))) by (apply sqrt_le_1_alt, le_INR; lia).
  split.
  - rewrite inner_apply.
    pose proof (sum_of_sparse v q sparse) as bound. rewrite inner_split.
    set (a := v n). set (S' := sum_upto n v) in *. set (W := sum_upto n (fun k => v k * v k)) in *.
    assert (W0 : 0 <= W) by (apply sum_nonneg; intros; apply Rle_0_sqr).
    assert (product : Rabs (2 * (a * S')) <= sqrt (INR q) * (W + a * a)).
    { assert (root : sqrt (INR q) * sqrt (INR q) = INR q) by (apply sqrt_sqrt, pos_INR).
      pose proof (sqrt_pos (INR q)).
      assert (Rabs S' <= sqrt (INR q) * sqrt W)
        by (rewrite <- sqrt_mult by (try apply pos_INR; assumption); apply abs_le_sqrt; exact bound).
      assert (sqrt W * sqrt W = W) by (apply sqrt_sqrt; assumption).
      pose proof (sqrt_pos W). pose proof (Rabs_pos a). pose proof (Rabs_pos S').
      assert (Rabs a * Rabs a = a * a) by (rewrite <- Rabs_mult; apply Rabs_right, Rle_ge, Rle_0_sqr).
      rewrite !Rabs_mult, (Rabs_right 2) by lra.
      apply Rle_trans with (2 * (Rabs a * (sqrt (INR q) * sqrt W))).
      - apply Rmult_le_compat_l; [lra |]. apply Rmult_le_compat_l; assumption.
      - assert (0 <= (sqrt W - Rabs a) * (sqrt W - Rabs a)) by apply Rle_0_sqr.
        replace (2 * (Rabs a * (sqrt (INR q) * sqrt W))) with (sqrt (INR q) * (2 * (Rabs a * sqrt W))) by ring.
        apply Rmult_le_compat_l; [assumption | lra]. }
    assert (0 <= W + a * a) by (assert (0 <= a * a) by apply Rle_0_sqr; lra).
    replace (a * S' + a * S') with (2 * (a * S')) by ring.
    assert (near : Rabs (c * (2 * (a * S'))) <= c * sqrt (INR (2 * q)) * (W + a * a)).
    { rewrite Rabs_mult, (Rabs_right c), Rmult_assoc by lra. apply Rmult_le_compat_l; [exact c_pos |].
      eapply Rle_trans; [exact product |]. apply Rmult_le_compat_r; assumption. }
    unfold Rabs in near; destruct (Rcase_abs (c * (2 * (a * S')))); lra.
  - rewrite inner_apply.
    assert (orthogonal : inner (S n) v v' = 0).
    { unfold inner, sum_upto. rewrite <- (sum_zero (seq 0 (S n))). apply sum_ext; intros i Hi; apply in_upto in Hi.
      destruct (disjoint i Hi) as [-> | ->]; ring. }
    rewrite orthogonal, Rplus_0_l, Rabs_mult, (Rabs_right c) by lra.
    rewrite !Rmult_assoc. apply Rmult_le_compat_l; [exact c_pos |].
    destruct (disjoint n (Nat.lt_succ_diag_r n)) as [zero | zero]; rewrite zero.
    + replace (0 * sum_upto n v' + v' n * sum_upto n v) with (v' n * sum_upto n v) by ring.
      eapply Rle_trans; [apply (cross_term v' v q sparse) |].
      rewrite (Rmult_comm (sqrt (inner (S n) v' v'))).
      apply Rmult_le_compat_r; [apply Rmult_le_pos; apply sqrt_pos | exact roots].
    + replace (v n * sum_upto n v' + 0 * sum_upto n v) with (v n * sum_upto n v') by ring.
      apply (cross_term v v' (2 * q) sparse').
Qed.

Lemma gram_low i j : (i < n)%nat -> (j < n)%nat ->
  inner (S n) (column E i) (column E j) = if (i =? j)%nat then 1 else 0.
Proof.
  intros Hi Hj. unfold inner, column. rewrite sum_upto_S.
  assert (at_n : E n i = 0).
  { unfold E, leaning. destruct (Nat.ltb_spec i n); [| lia]. destruct (Nat.eqb_spec n i); [lia | reflexivity]. }
  rewrite at_n, Rmult_0_l, Rplus_0_r.
  rewrite (sum_upto_ext n _ (fun k => (if (i =? k)%nat then 1 else 0) * (if (k =? j)%nat then 1 else 0))).
  - rewrite sum_delta. destruct (Nat.ltb_spec i n); [reflexivity | lia].
  - intros k _. unfold E, leaning.
    destruct (Nat.ltb_spec i n), (Nat.ltb_spec j n); try lia. now rewrite (Nat.eqb_sym k i).
Qed.

Lemma gram_last i : (i < n)%nat -> inner (S n) (column E n) (column E i) = c.
Proof.
  intros Hi. unfold inner, column. rewrite sum_upto_S.
  assert (at_n : E n i = 0).
  { unfold E, leaning. destruct (Nat.ltb_spec i n); [| lia]. destruct (Nat.eqb_spec n i); [lia | reflexivity]. }
  rewrite at_n, Rmult_0_r, Rplus_0_r.
  rewrite (sum_upto_ext n _ (fun k => (if (i =? k)%nat then 1 else 0) * c)).
  - rewrite (sum_delta n i (fun _ => c)). destruct (Nat.ltb_spec i n); [reflexivity | lia].
  - intros k Hk. unfold E, leaning.
    destruct (Nat.ltb_spec n n); [lia |]. destruct (Nat.ltb_spec k n); [| lia].
    destruct (Nat.ltb_spec i n); [| lia]. rewrite (Nat.eqb_sym k i). ring.
Qed.

Lemma inner_combination width x (y : list nat) (u : vector) (e : vector) :
  (forall k, (k < width)%nat -> e k = sum y (fun i => u i * E k i)) ->
  inner width x e = sum y (fun i => u i * inner width x (column E i)).
Proof.
  intros expand. unfold inner. rewrite (sum_upto_ext width _ (fun k => sum y (fun i => u i * (x k * E k i)))).
  - unfold sum_upto. rewrite sum_exchange. apply sum_ext; intros i _. now rewrite sum_mult_l.
  - intros k Hk. rewrite expand by exact Hk. rewrite <- sum_mult_l. apply sum_ext; intros; ring.
Qed.

Lemma sum_delta_list (y : list nat) (u : vector) (j : nat) :
  NoDup y -> In j y -> sum y (fun i => u i * (if (j =? i)%nat then 1 else 0)) = u j.
Proof.
  induction y as [| i y IH]; intros distinct inside; [easy |]. inversion distinct; subst. simpl.
  destruct (Nat.eqb_spec j i) as [-> | other].
  - rewrite (sum_ext _ _ (fun _ => 0)); [rewrite sum_zero; ring |].
    intros k Hk. destruct (Nat.eqb_spec i k); [now subst | ring].
  - rewrite IH; [ring | assumption |]. destruct inside as [-> | inside]; [easy | exact inside].
Qed.

(** The last encoding has the inner product q c with the code of every subset of q of the others. *)
Theorem selection_corollary_e_16_overlap (q : nat) (y : list nat) (e : vector) :
  subset n q y -> subset_code (S n) E y e -> inner (S n) (column E n) e = INR q * c.
Proof.
  intros [distinct [size low]] [[u expand] ones].
  assert (unit : forall j, In j y -> u j = 1).
  { intros j Hj. rewrite <- (ones j Hj), (inner_combination _ _ y u e expand).
    rewrite (sum_ext _ _ (fun i => u i * (if (j =? i)%nat then 1 else 0))).
    - symmetry. now apply sum_delta_list.
    - intros i Hi. rewrite gram_low by (apply low; assumption). reflexivity. }
  rewrite (inner_combination _ _ y u e expand), (sum_ext _ _ (fun _ => c)).
  - now rewrite sum_const, size.
  - intros i Hi. rewrite (unit i Hi), gram_last by (apply low; assumption). ring.
Qed.

(** Every subset of the orthonormal encodings has a code: the sum of its encodings. *)
Theorem selection_corollary_e_16_code (q : nat) (y : list nat) :
  subset n q y -> subset_code (S n) E y (fun k => sum y (fun i => 1 * E k i)).
Proof.
  intros [distinct [size low]]. split.
  - exists (fun _ => 1). reflexivity.
  - intros j Hj. rewrite (inner_combination (S n) _ y (fun _ => 1)) by reflexivity.
    rewrite (sum_ext _ _ (fun i => 1 * (if (j =? i)%nat then 1 else 0))).
    + now apply (sum_delta_list y (fun _ => 1)).
    + intros i Hi. rewrite gram_low by (apply low; assumption). reflexivity.
Qed.

(** The error on a subset stays above 1 / q - exp (-2 C (q c - 1)), whatever alpha is. *)
Theorem selection_corollary_e_16_error (q : nat) (y : list nat) (e : vector) (alpha C : R) :
  (0 < q)%nat -> subset n q y -> subset_code (S n) E y e ->
  1 / INR q - exp (- (2 * C * (INR q * c - 1))) <= selection_error (S n) (S n) q E e y alpha C.
Proof.
  intros q0 chosen code.
  pose proof (selection_corollary_e_16_overlap q y e chosen code) as overlap.
  destruct chosen as [distinct [size low]]. destruct code as [_ ones].
  assert (Q : 0 < INR q) by (apply lt_0_INR; exact q0).
  set (total := sum_upto (S n) (fun j => exp (C * inner (S n) (column E j) e))).
  assert (total0 : 0 < total) by (apply sum_pos; [discriminate | intros; apply exp_pos]).
  set (s := exp C / total). set (w := exp (C * (INR q * c)) / total).
  assert (s0 : 0 < s) by (apply Rdiv_lt_0_compat; [apply exp_pos | exact total0]).
  assert (w0 : 0 < w) by (apply Rdiv_lt_0_compat; [apply exp_pos | exact total0]).
  assert (inside : forall i, In i y -> attention (S n) (S n) E e C i = s).
  { intros i Hi. unfold attention. fold total. rewrite (ones i Hi), Rmult_1_r. reflexivity. }
  assert (last : attention (S n) (S n) E e C n = w).
  { unfold attention. fold total. rewrite overlap. reflexivity. }
  assert (terms : sum y (fun _ => (1 / INR q - alpha * s) * (1 / INR q - alpha * s))
                  <= sum_upto n (fun i =>
                       let target := if in_dec Nat.eq_dec i y then 1 / INR q else 0 in
                       (target - alpha * attention (S n) (S n) E e C i)
                       * (target - alpha * attention (S n) (S n) E e C i))).
  { set (g := fun i : nat => let target := if in_dec Nat.eq_dec i y then 1 / INR q else 0 in
                       (target - alpha * attention (S n) (S n) E e C i)
                       * (target - alpha * attention (S n) (S n) E e C i)).
    rewrite (sum_ext y _ g).
    - assert (g0 : forall i, 0 <= g i) by (intros i; apply Rle_0_sqr).
      clear - distinct low g0. unfold sum_upto. revert low.
      assert (general : forall l l' : list nat, NoDup l -> incl l l' -> sum l g <= sum l' g).
      { intros l. induction l as [| i l IH]; intros l' nodup inc.
        - apply sum_nonneg; intros; apply g0.
        - inversion nodup; subst. destruct (in_split i l') as [l1 [l2 ->]]; [apply inc; now left |].
          rewrite sum_app; simpl. specialize (IH (l1 ++ l2)). rewrite sum_app in IH.
          assert (sum l g <= sum l1 g + sum l2 g); [| lra]. apply IH; [assumption |].
          intros j Hj. assert (In j (l1 ++ i :: l2)) as Hin by (apply inc; now right).
          apply in_app_or in Hin. apply in_or_app. destruct Hin as [| [<- |]]; auto. easy. }
      intros low. apply general; [exact distinct |]. intros i Hi. apply in_upto, low, Hi.
    - intros i Hi. unfold g. destruct (in_dec Nat.eq_dec i y); [| easy]. now rewrite (inside i Hi). }
  unfold selection_error. rewrite sum_upto_S.
  destruct (in_dec Nat.eq_dec n y) as [bad | _]; [specialize (low n bad); lia |].
  rewrite last, sum_const, size in *. cbv zeta in terms |- *.
  set (rest := sum_upto n _) in *.
  assert (ratio : exp (- (2 * C * (INR q * c - 1))) = (s / w) * (s / w)).
  { unfold s, w. replace (exp C / total / (exp (C * (INR q * c)) / total)) with (exp C / exp (C * (INR q * c)))
      by (field; repeat split; apply Rgt_not_eq; first [exact total0 | apply exp_pos]).
    unfold Rdiv. rewrite <- exp_Ropp, <- !exp_plus. f_equal. ring. }
  rewrite ratio.
  assert (square : 0 <= (alpha * w - s / w) * (alpha * w - s / w)) by apply Rle_0_sqr.
  replace ((alpha * w - s / w) * (alpha * w - s / w))
    with (alpha * w * (alpha * w) - 2 * alpha * s + (s / w) * (s / w)) in square by (field; lra).
  replace (INR q * ((1 / INR q - alpha * s) * (1 / INR q - alpha * s)))
    with (1 / INR q - 2 * alpha * s + INR q * (alpha * s * (alpha * s))) in terms by (field; lra).
  assert (0 <= INR q * (alpha * s * (alpha * s))) by (apply Rmult_le_pos; [lra | apply Rle_0_sqr]).
  lra.
Qed.
End Leaning.

(** The largest error that Theorem E.6 allows, over the dimension d of tokens: T / (100 (T - q) q). *)
Definition largest_epsilon (T q : nat) : R := INR T / (100 * (INR T - INR q) * INR q).

(** q = 256, T = 1025 and an encoding with a constant delta below 1/10, as Theorem E.6 demands: the last encoding has an
    inner product above 1.12 with the code of each subset of 256 of the others, where the proof of Corollary E.16 needs
    one below 1; and for every alpha and every C from 40 on, the loss on each of these subsets, which are 769 of 1025 of
    all, is more than 30 times the largest epsilon of the corollary. *)
Theorem selection_corollary_e_16_refuted :
  exists (E : encoding) (delta : R),
    0 < delta < 1 / 10 /\ restricted_isometry 1025 1025 256 delta E /\
    (forall y, subset 1024 256 y -> exists e, subset_code 1025 E y e) /\
    (forall y e, subset 1024 256 y -> subset_code 1025 E y e ->
       inner 1025 (column E 1024%nat) e > 112 / 100 /\
       forall alpha C, 40 <= C -> 1 / 2 * selection_error 1025 1025 256 E e y alpha C > 30 * largest_epsilon 1025 256).
Proof.
  pose (c := 44 / 10000).
  assert (c0 : 0 <= c) by (unfold c; lra).
  assert (count : INR 1024 = 1024) by (rewrite INR_IZR_INZ; reflexivity).
  assert (size : INR 256 = 256) by (rewrite INR_IZR_INZ; reflexivity).
  assert (all : INR 1025 = 1025) by (rewrite INR_IZR_INZ; reflexivity).
  assert (pairs : INR (2 * 256) = 512) by (rewrite INR_IZR_INZ; reflexivity).
  assert (fits : INR 1024 * (c * c) <= 1) by (rewrite count; unfold c; lra).
  exists (leaning 1024 c), (c * sqrt 512). split; [split |]; [| | split; [| split; [| intros y e chosen code; split]]].
  - unfold c. assert (0 < sqrt 512) by (apply sqrt_lt_R0; lra). lra.
  - assert (sqrt 512 < 227 / 10); [| unfold c; lra].
    rewrite <- (sqrt_Rsqr (227 / 10)) by lra. apply sqrt_lt_1; unfold Rsqr; lra.
  - rewrite <- pairs. exact (selection_corollary_e_16_isometry 1024 c c0 fits 256).
  - intros y chosen. eexists. exact (selection_corollary_e_16_code 1024 c 256 y chosen).
  - rewrite (selection_corollary_e_16_overlap 1024 c 256 y e chosen code), size. unfold c. lra.
  - intros alpha C C40.
    pose proof (selection_corollary_e_16_error 1024 c 256 y e alpha C ltac:(lia) chosen code) as bound.
    rewrite size in bound. unfold largest_epsilon. rewrite all, size.
    assert (small : exp (- (2 * C * (256 * c - 1))) <= / 3325).
    { apply Rle_trans with (exp (- (10))).
      - assert (- (2 * C * (256 * c - 1)) < - (10)) by (unfold c; lra). left. now apply exp_increasing.
      - rewrite exp_Ropp. apply Rinv_le_contravar; [lra |].
        replace 10 with (INR 20 * (1 / 2)) by (simpl; lra).
        assert (power : forall m x, exp (INR m * x) = exp x ^ m).
        { intros m x. induction m as [| m IH]; [simpl; rewrite Rmult_0_l; apply exp_0 |].
          rewrite S_INR, Rmult_plus_distr_r, exp_plus, IH, Rmult_1_l; simpl; ring. }
        rewrite power. apply Rle_trans with ((3 / 2) ^ 20); [lra |].
        apply pow_incr. pose proof (exp_ineq1_le (1 / 2)). lra. }
    change (S 1024) with 1025%nat in bound. lra.
Qed.
