(** Finite sums of real numbers over lists, and the few facts about them that the other files use. *)

From Coq Require Import Reals List Lra Lia Arith.
Import ListNotations.
Open Scope R_scope.

(** [sum l f] is the sum of [f i] over the entries [i] of the list [l]. *)
Fixpoint sum {I : Type} (l : list I) (f : I -> R) : R :=
  match l with
  | [] => 0
  | i :: rest => f i + sum rest f
  end.

(** [sum_upto n f] is f 0 + ... + f (n - 1). *)
Definition sum_upto (n : nat) (f : nat -> R) : R := sum (seq 0 n) f.

Section Sums.
Context {I : Type}.
Implicit Types (l : list I) (f g : I -> R) (c : R).

Lemma sum_ext l f g : (forall i, In i l -> f i = g i) -> sum l f = sum l g.
Proof.
  induction l as [| i l IH]; simpl; intros H; [reflexivity |].
  rewrite (H i (or_introl eq_refl)), IH; [reflexivity |]. intros j Hj; apply H; now right.
Qed.

Lemma sum_plus l f g : sum l (fun i => f i + g i) = sum l f + sum l g.
Proof. induction l as [| i l IH]; simpl; [lra | rewrite IH; lra]. Qed.

Lemma sum_minus l f g : sum l (fun i => f i - g i) = sum l f - sum l g.
Proof. induction l as [| i l IH]; simpl; [lra | rewrite IH; lra]. Qed.

Lemma sum_mult_l l c f : sum l (fun i => c * f i) = c * sum l f.
Proof. induction l as [| i l IH]; simpl; [lra | rewrite IH; lra]. Qed.

Lemma sum_mult_r l c f : sum l (fun i => f i * c) = sum l f * c.
Proof. induction l as [| i l IH]; simpl; [lra | rewrite IH; lra]. Qed.

Lemma sum_le l f g : (forall i, In i l -> f i <= g i) -> sum l f <= sum l g.
Proof.
  induction l as [| i l IH]; simpl; intros H; [lra |].
  apply Rplus_le_compat; [apply H; now left |]. apply IH; intros j Hj; apply H; now right.
Qed.

Lemma sum_zero l : sum l (fun _ => 0) = 0.
Proof. induction l as [| i l IH]; simpl; [lra | rewrite IH; lra]. Qed.

Lemma sum_const l c : sum l (fun _ => c) = INR (length l) * c.
Proof.
  induction l as [| i l IH]; [simpl; lra |].
  change (c + sum l (fun _ => c) = INR (S (length l)) * c). rewrite IH, S_INR; lra.
Qed.

Lemma sum_nonneg l f : (forall i, In i l -> 0 <= f i) -> 0 <= sum l f.
Proof. intros H. rewrite <- (sum_zero l). now apply sum_le. Qed.

Lemma sum_pos l f : l <> [] -> (forall i, In i l -> 0 < f i) -> 0 < sum l f.
Proof.
  destruct l as [| i l]; [easy |]. intros _ H; simpl.
  assert (0 < f i) by (apply H; now left).
  assert (0 <= sum l f) by (apply sum_nonneg; intros j Hj; left; apply H; now right). lra.
Qed.

Lemma sum_abs l f : Rabs (sum l f) <= sum l (fun i => Rabs (f i)).
Proof.
  induction l as [| i l IH]; simpl; [rewrite Rabs_R0; lra |].
  eapply Rle_trans; [apply Rabs_triang | lra].
Qed.

Lemma sum_app l1 l2 f : sum (l1 ++ l2) f = sum l1 f + sum l2 f.
Proof. induction l1 as [| i l1 IH]; simpl; [lra | rewrite IH; lra]. Qed.
End Sums.

Lemma sum_map {I J : Type} (h : I -> J) (l : list I) (f : J -> R) : sum (map h l) f = sum l (fun i => f (h i)).
Proof. induction l as [| i l IH]; simpl; [reflexivity | now rewrite IH]. Qed.

Lemma sum_flat_map {I J : Type} (h : I -> list J) (l : list I) (f : J -> R) :
  sum (flat_map h l) f = sum l (fun i => sum (h i) f).
Proof. induction l as [| i l IH]; simpl; [reflexivity | now rewrite sum_app, IH]. Qed.

(** The sums over two lists may be exchanged. *)
Lemma sum_exchange {I J : Type} (l : list I) (m : list J) (f : I -> J -> R) :
  sum l (fun i => sum m (fun j => f i j)) = sum m (fun j => sum l (fun i => f i j)).
Proof.
  induction l as [| i l IH]; simpl; [now rewrite sum_zero |].
  now rewrite IH, <- sum_plus.
Qed.

(** A product of sums is the sum of the products over all pairs. *)
Lemma sum_product {I J : Type} (l : list I) (m : list J) (f : I -> R) (g : J -> R) :
  sum l f * sum m g = sum m (fun j => sum l (fun i => f i * g j)).
Proof.
  rewrite <- sum_mult_l. apply sum_ext; intros j _. now rewrite <- sum_mult_r.
Qed.

Lemma in_upto n i : In i (seq 0 n) <-> (i < n)%nat.
Proof. rewrite in_seq; lia. Qed.

Lemma sum_upto_S n f : sum_upto (S n) f = sum_upto n f + f n.
Proof. unfold sum_upto. rewrite seq_S, sum_app; simpl; lra. Qed.

Lemma sum_upto_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> sum_upto n f = sum_upto n g.
Proof. intros H; apply sum_ext; intros i Hi; apply H; now apply in_upto. Qed.

Lemma sum_upto_const n c : sum_upto n (fun _ => c) = INR n * c.
Proof. unfold sum_upto. now rewrite sum_const, seq_length. Qed.

Lemma sum_upto_plus n m f : sum_upto (n + m) f = sum_upto n f + sum_upto m (fun i => f (n + i)%nat).
Proof.
  unfold sum_upto. rewrite seq_app, sum_app. f_equal. simpl.
  clear. induction m as [| m IH]; [reflexivity |].
  rewrite !seq_S, !sum_app, IH. reflexivity.
Qed.

(** The first summand apart. *)
Lemma sum_upto_first n f : sum_upto (S n) f = f 0%nat + sum_upto n (fun i => f (S i)).
Proof. change (S n) with (1 + n)%nat. rewrite sum_upto_plus. unfold sum_upto; simpl; lra. Qed.

(** A sum over [n * m] numbers, read as pairs of which the first index runs fastest. *)
Lemma sum_upto_pairs n m f :
  sum_upto (n * m) f = sum_upto m (fun j => sum_upto n (fun i => f (i + j * n)%nat)).
Proof.
  induction m as [| m IH]; [rewrite Nat.mul_0_r; reflexivity |].
  rewrite Nat.mul_succ_r, sum_upto_plus, IH, sum_upto_S. f_equal.
  apply sum_upto_ext; intros i _. f_equal; lia.
Qed.

(** The inequality of Cauchy and Schwarz. *)
Lemma cauchy_schwarz {I : Type} (l : list I) (f g : I -> R) :
  sum l (fun i => f i * g i) * sum l (fun i => f i * g i) <=
  sum l (fun i => f i * f i) * sum l (fun i => g i * g i).
Proof.
  set (a := sum l (fun i => f i * f i)). set (b := sum l (fun i => f i * g i)).
  set (c := sum l (fun i => g i * g i)).
  assert (quadratic : forall x, 0 <= a * (x * x) - 2 * x * b + c).
  { intros x.
    replace (a * (x * x) - 2 * x * b + c) with (sum l (fun i => (x * f i - g i) * (x * f i - g i))).
    - apply sum_nonneg; intros i _. apply Rle_0_sqr.
    - unfold a, b, c. clear. induction l as [| i l IH]; simpl; [lra |]. rewrite IH. ring. }
  assert (0 <= a) by (apply sum_nonneg; intros i _; apply Rle_0_sqr).
  assert (0 <= c) by (apply sum_nonneg; intros i _; apply Rle_0_sqr).
  destruct (Req_dec a 0) as [a0 | a0].
  - assert (b = 0).
    { destruct (Req_dec b 0) as [| b0]; [assumption | exfalso].
      specialize (quadratic ((c + 1) / (2 * b))). rewrite a0 in quadratic.
      replace (0 * _ - 2 * ((c + 1) / (2 * b)) * b + c) with (-1) in quadratic by (field; assumption). lra. }
    nra.
  - specialize (quadratic (b / a)).
    replace (a * (b / a * (b / a)) - 2 * (b / a) * b + c) with ((a * c - b * b) / a) in quadratic by (field; lra).
    assert (0 < a) by lra.
    apply (Rmult_le_compat_r a) in quadratic; [| lra].
    replace ((a * c - b * b) / a * a) with (a * c - b * b) in quadratic by (field; lra). lra.
Qed.
