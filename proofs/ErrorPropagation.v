(** Lemmas D.3, D.5 and D.6 of Alman and Song, "How to Capture Higher-order Correlations?": how large scores are, and how
    errors of the weights reach their row sums and the output. *)

From Coq Require Import Reals List Lra Lia Arith.
From Separatrix Require Import FiniteSums ColumnKronecker.
Open Scope R_scope.

(** ||M||_infinity <= B for the first [rows] rows and [columns] columns of M. *)
Definition bounded (rows columns : nat) (M : matrix) (B : R) : Prop :=
  forall i j, (i < rows)%nat -> (j < columns)%nat -> Rabs (M i j) <= B.

(** |M~ - M| <= epsilon M, entry by entry. *)
Definition within (rows columns : nat) (M' M : matrix) (epsilon : R) : Prop :=
  forall i j, (i < rows)%nat -> (j < columns)%nat -> Rabs (M' i j - M i j) <= epsilon * M i j.

Definition positive (rows columns : nat) (M : matrix) : Prop :=
  forall i j, (i < rows)%nat -> (j < columns)%nat -> 0 < M i j.

(** D_{i, i} = (M 1)_i *)
Definition row_sum (columns : nat) (M : matrix) (i : nat) : R := sum_upto columns (M i).

(** (D^{-1} A V)_{i, j} of a diagonal matrix D and a matrix A with [columns] columns. *)
Definition normalised_output (columns : nat) (D : nat -> R) (A V : matrix) (i j : nat) : R :=
  product columns A V i j / D i.

(** Lemma D.3: no score exceeds B^3. The lemma's hypothesis B >= 1 is not needed. *)
Theorem kronecker_lemma_d_3 (n d : nat) (Q K1 K2 : matrix) (B : R) (i j1 j2 : nat) :
  (0 < d)%nat -> bounded n d Q B -> bounded n d K1 B -> bounded n d K2 B ->
  (i < n)%nat -> (j1 < n)%nat -> (j2 < n)%nat ->
  Rabs (triple_product d Q K1 K2 i j1 j2 / INR d) <= B ^ 3.
Proof.
  intros d0 bQ bK1 bK2 hi hj1 hj2.
  assert (width : 0 < INR d) by (apply lt_0_INR; exact d0).
  unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ INR d)) by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat; exact width).
  apply (Rmult_le_reg_r (INR d)); [exact width |]. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  unfold triple_product. eapply Rle_trans; [apply sum_abs |].
  rewrite Rmult_comm, <- sum_upto_const. apply sum_le; intros a Ha; apply in_upto in Ha.
  rewrite !Rabs_mult. pose proof (bQ i a hi Ha). pose proof (bK1 j1 a hj1 Ha). pose proof (bK2 j2 a hj2 Ha).
  replace (B ^ 3) with (B * B * B) by ring.
  repeat apply Rmult_le_compat; try apply Rmult_le_pos; try apply Rabs_pos; assumption.
Qed.

(** Equality is reached, so that no bound below B^3 is true for all matrices. *)
Theorem kronecker_lemma_d_3_sharp (n d : nat) (B : R) (i j1 j2 : nat) :
  (0 < d)%nat -> 0 <= B ->
  bounded n d (fun _ _ => B) B /\
  triple_product d (fun _ _ => B) (fun _ _ => B) (fun _ _ => B) i j1 j2 / INR d = B ^ 3.
Proof.
  intros d0 B0. assert (0 < INR d) by (apply lt_0_INR; exact d0). split.
  - intros r c _ _. rewrite Rabs_right; lra.
  - unfold triple_product. rewrite sum_upto_const. field. lra.
Qed.

(** Lemma D.5: relative errors of the weights are relative errors of their row sums. *)
Theorem kronecker_lemma_d_5 (n m : nat) (A A' : matrix) (epsilon : R) (i : nat) :
  within n m A' A epsilon -> (i < n)%nat ->
  Rabs (row_sum m A' i - row_sum m A i) <= epsilon * row_sum m A i.
Proof.
  intros error hi. unfold row_sum, sum_upto. rewrite <- sum_minus, <- sum_mult_l.
  eapply Rle_trans; [apply sum_abs |]. apply sum_le; intros j Hj; apply in_upto in Hj. now apply error.
Qed.

(** Equality is reached: no bound below epsilon_A is true for all weights. *)
Theorem kronecker_lemma_d_5_sharp (n m : nat) (A : matrix) (epsilon : R) (i : nat) :
  0 <= epsilon -> positive n m A ->
  within n m (fun r c => (1 + epsilon) * A r c) A epsilon /\
  row_sum m (fun r c => (1 + epsilon) * A r c) i - row_sum m A i = epsilon * row_sum m A i.
Proof.
  intros e0 pos. split.
  - intros r c hr hc. specialize (pos r c hr hc).
    replace ((1 + epsilon) * A r c - A r c) with (epsilon * A r c) by ring. rewrite Rabs_right; nra.
  - unfold row_sum, sum_upto. rewrite sum_mult_l. ring.
Qed.

(** The proof of Lemma D.5 prints D_{i, i} as the sum of A_{i, l} over j, on which the terms do not depend. *)
Definition lemma_d_5_proof_as_printed : Prop :=
  forall (n : nat) (A : matrix) (i l : nat),
    positive n (n * n) A -> (i < n)%nat -> (l < n * n)%nat ->
    row_sum (n * n) A i = sum_upto (n * n) (fun _ => A i l).

Theorem kronecker_lemma_d_5_proof_refuted : ~ lemma_d_5_proof_as_printed.
Proof.
  intros printed.
  specialize (printed 2%nat (fun _ c => if (c =? 0)%nat then 2 else 1) 0%nat 0%nat).
  unfold positive, row_sum, sum_upto in printed; simpl in printed.
  assert (4 + 1 = 2 + 2 + 2 + 2); [| lra].
  etransitivity; [| etransitivity; [apply printed |]]; try lia; try lra.
  intros r c _ _; destruct c; simpl; lra.
Qed.

(** Lemma D.6, corrected: D = diag(A 1) and D~ = diag(A~ 1) are the row sums. *)
Theorem kronecker_lemma_d_6 (n d m : nat) (A A' V : matrix) (B epsilon_A epsilon_D : R) (i j : nat) :
  0 < epsilon_A < 1 / 10 -> 0 < epsilon_D < 1 / 10 -> (0 < m)%nat ->
  positive n m A -> within n m A' A epsilon_A -> bounded m d V (B ^ 2) ->
  (forall r, (r < n)%nat -> Rabs (row_sum m A' r - row_sum m A r) <= epsilon_D * row_sum m A r) ->
  (i < n)%nat -> (j < d)%nat ->
  Rabs (normalised_output m (row_sum m A') A' V i j - normalised_output m (row_sum m A) A V i j)
    <= (epsilon_A + epsilon_D) * B ^ 2.
Proof.
  intros eA eD m0 pos error bV errorD hi hj.
  assert (D0 : 0 < row_sum m A i).
  { apply sum_pos; [destruct m; [lia | discriminate] |]. intros l Hl; apply in_upto in Hl. now apply pos. }
  assert (near : forall l, (l < m)%nat -> 0 < A' i l).
  { intros l Hl. specialize (error i l hi Hl). specialize (pos i l hi Hl).
    unfold Rabs in error; destruct (Rcase_abs (A' i l - A i l)); nra. }
  assert (D0' : 0 < row_sum m A' i).
  { apply sum_pos; [destruct m; [lia | discriminate] |]. intros l Hl; apply in_upto in Hl. now apply near. }
  specialize (errorD i hi). unfold normalised_output.
  set (D := row_sum m A i) in *. set (D' := row_sum m A' i) in *.
  set (N := product m A V i j). set (N' := product m A' V i j).
  assert (numerators : Rabs (N' - N) <= epsilon_A * D * B ^ 2).
  { unfold N, N', product, sum_upto. rewrite <- sum_minus. eapply Rle_trans; [apply sum_abs |].
    unfold D, row_sum, sum_upto. rewrite <- sum_mult_l, <- sum_mult_r. apply sum_le; intros l Hl; apply in_upto in Hl.
    replace (A' i l * V l j - A i l * V l j) with ((A' i l - A i l) * V l j) by ring.
    rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; [now apply error | now apply bV]. }
  assert (magnitude : Rabs N' <= D' * B ^ 2).
  { unfold N', product, sum_upto. eapply Rle_trans; [apply sum_abs |].
    unfold D', row_sum, sum_upto. rewrite <- sum_mult_r. apply sum_le; intros l Hl; apply in_upto in Hl.
    rewrite Rabs_mult, (Rabs_right (A' i l)) by (apply Rle_ge, Rlt_le, near, Hl).
    apply Rmult_le_compat_l; [apply Rlt_le, near, Hl | now apply bV]. }
  replace (N' / D' - N / D) with (N' / D' * ((D - D') / D) + (N' - N) / D) by (field; lra).
  eapply Rle_trans; [apply Rabs_triang |].
  assert (0 < / D) by (apply Rinv_0_lt_compat; exact D0).
  assert (0 < / D') by (apply Rinv_0_lt_compat; exact D0').
  assert (B2 : 0 <= B ^ 2) by (apply pow2_ge_0).
  assert (first : Rabs (N' / D' * ((D - D') / D)) <= B ^ 2 * epsilon_D).
  { rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos.
    - unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ D')) by lra.
      apply (Rmult_le_reg_r D'); [exact D0' |]. rewrite Rmult_assoc, Rinv_l by lra. lra.
    - unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ D)), Rabs_minus_sym by lra.
      apply (Rmult_le_reg_r D); [exact D0 |]. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (second : Rabs ((N' - N) / D) <= epsilon_A * B ^ 2).
  { unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ D)) by lra.
    apply (Rmult_le_reg_r D); [exact D0 |]. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  lra.
Qed.

(** Lemma D.6 as printed: D and D~ are any positive diagonal matrices with |D~ - D| <= epsilon_D D. [factor] multiplies
    the printed bound. *)
Definition lemma_d_6_as_printed (factor : R) : Prop :=
  forall (n d : nat) (A A' V1 V2 : matrix) (D D' : nat -> R) (B epsilon_A epsilon_D : R) (i j : nat),
    0 < epsilon_A < 1 / 10 -> 0 < epsilon_D < 1 / 10 -> 1 < B ->
    positive n (n * n) A -> within n (n * n) A' A epsilon_A ->
    bounded (n * n) d (column_kronecker n V1 V2) (B ^ 2) ->
    (forall r, (r < n)%nat -> 0 < D r /\ 0 < D' r) ->
    (forall r, (r < n)%nat -> Rabs (D' r - D r) <= epsilon_D * D r) ->
    (i < n)%nat -> (j < d)%nat ->
    Rabs (normalised_output (n * n) D' A' (column_kronecker n V1 V2) i j
          - normalised_output (n * n) D A (column_kronecker n V1 V2) i j)
      <= factor * ((epsilon_A + epsilon_D) * B ^ 2).

(** What is printed is false, whatever factor multiplies its bound: with n = d = 1 and A = 1 the normaliser D may be as
    small as one likes. *)
Theorem kronecker_lemma_d_6_refuted (factor : R) : ~ lemma_d_6_as_printed factor.
Proof.
  intros printed. pose (large := Rmax factor 1 + 1).
  assert (large1 : 1 < large) by (unfold large; pose proof (Rmax_r factor 1); lra).
  assert (above : factor < large) by (unfold large; pose proof (Rmax_l factor 1); lra).
  specialize (printed 1%nat 1%nat ones (fun _ _ => 1 + 1 / 20) (fun _ _ => 2) (fun _ _ => 2)
                (fun _ => / large) (fun _ => (1 - 1 / 20) * / large) 2 (1 / 20) (1 / 20) 0%nat 0%nat).
  assert (inverse : 0 < / large) by (apply Rinv_0_lt_compat; lra).
  assert (bound : Rabs (normalised_output 1 (fun _ => (1 - 1 / 20) * / large) (fun _ _ => 1 + 1 / 20)
                          (column_kronecker 1 (fun _ _ => 2) (fun _ _ => 2)) 0%nat 0%nat
                        - normalised_output 1 (fun _ => / large) ones
                            (column_kronecker 1 (fun _ _ => 2) (fun _ _ => 2)) 0%nat 0%nat)
                  <= factor * ((1 / 20 + 1 / 20) * 2 ^ 2)).
  { apply printed; try lra; try lia.
    - intros r c _ _. unfold ones. lra.
    - intros r c _ _. unfold ones. rewrite Rabs_right; lra.
    - intros r c _ _. unfold column_kronecker. rewrite Rabs_right; lra.
    - intros r _. split; nra.
    - intros r _. rewrite Rabs_left1; nra. }
  clear printed. revert bound.
  unfold normalised_output, product, column_kronecker, ones, sum_upto; simpl.
  replace (((1 + 1 / 20) * (2 * 2) + 0) / ((1 - 1 / 20) * / large) - (1 * (2 * 2) + 0) / / large)
    with (8 / 19 * large) by (field; lra).
  rewrite Rabs_right by lra. lra.
Qed.

(** With D = diag(A 1) but any D~ within epsilon_D of it, the printed bound is still exceeded, by 1 / (1 - epsilon_D). *)
Theorem kronecker_lemma_d_6_free_normaliser (epsilon_A epsilon_D B : R) :
  0 < epsilon_A < 1 / 10 -> 0 < epsilon_D < 1 / 10 -> 1 < B ->
  let A' := fun _ _ => 1 + epsilon_A in
  let V := column_kronecker 1 (fun _ _ => B) (fun _ _ => B) in
  let D' := fun i => (1 - epsilon_D) * row_sum 1 ones i in
  within 1 1 A' ones epsilon_A /\
  Rabs (normalised_output 1 D' A' V 0%nat 0%nat - normalised_output 1 (row_sum 1 ones) ones V 0%nat 0%nat)
    = (epsilon_A + epsilon_D) * B ^ 2 / (1 - epsilon_D).
Proof.
  intros eA eD B1 A' V D'. split.
  - intros r c _ _. unfold A', ones. rewrite Rabs_right; lra.
  - unfold normalised_output, product, D', V, A', column_kronecker, row_sum, ones, sum_upto; simpl.
    replace (((1 + epsilon_A) * (B * B) + 0) / ((1 - epsilon_D) * (1 + 0)) - (1 * (B * B) + 0) / (1 + 0))
      with ((epsilon_A + epsilon_D) * (B * B) / (1 - epsilon_D)) by (field; lra).
    rewrite Rabs_right; [unfold Rdiv; ring |]. apply Rle_ge, Rlt_le.
    apply Rdiv_lt_0_compat; [| lra]. repeat apply Rmult_lt_0_compat; lra.
Qed.
