(** Lemmas C.3 and C.5 of Alman and Song, "How to Capture Higher-order Correlations?".

    A matrix is a function of a row and a column, both counted from 0; its shape is stated where it matters. *)

From Coq Require Import Reals List Lra Lia Arith.
From Separatrix Require Import FiniteSums.
Open Scope R_scope.

Definition matrix := nat -> nat -> R.

(** Definition 2.4, the column-wise Kronecker product of two matrices with n rows: row j_1 + j_2 n is the entrywise
    product of row j_1 of the first and row j_2 of the second. *)
Definition column_kronecker (n : nat) (K1 K2 : matrix) : matrix :=
  fun row column => K1 (row mod n) column * K2 (row / n)%nat column.

(** A^T B of two matrices with [rows] rows. *)
Definition transposed_product (rows : nat) (A B : matrix) : matrix :=
  fun k1 k2 => sum_upto rows (fun r => A r k1 * B r k2).

(** A B, where A has [width] columns. *)
Definition product (width : nat) (A B : matrix) : matrix :=
  fun i j => sum_upto width (fun a => A i a * B a j).

(** Definition 2.1, the entrywise product. *)
Definition hadamard (A B : matrix) : matrix := fun i j => A i j * B i j.

Definition transpose (A : matrix) : matrix := fun i j => A j i.

(** Definition 2.2: T_{i, j_1, j_2} = sum_a A_{i a} B_{j_1 a} C_{j_2 a}, of matrices with d columns. *)
Definition triple_product (d : nat) (A B C : matrix) : nat -> nat -> nat -> R :=
  fun i j1 j2 => sum_upto d (fun a => A i a * B j1 a * C j2 a).

(** Definition C.4: T(X, Y, Z) of an n x n x n tensor. *)
Definition tensor_operator (n : nat) (T : nat -> nat -> nat -> R) (X Y Z : matrix) : nat -> nat -> nat -> R :=
  fun i j l => sum_upto n (fun a => sum_upto n (fun b => sum_upto n (fun c => T a b c * X a i * Y b j * Z c l))).

(** The matrix whose entries are all 1. *)
Definition ones : matrix := fun _ _ => 1.

Definition identity_matrix : matrix := fun i j => if (i =? j)%nat then 1 else 0.

(** Q (K_1 (x) K_2)^T, of matrices with n rows and d columns: n x n^2. *)
Definition scores (n d : nat) (Q K1 K2 : matrix) : matrix :=
  product d Q (transpose (column_kronecker n K1 K2)).

Lemma column_kronecker_at n K1 K2 j1 j2 a :
  (j1 < n)%nat -> column_kronecker n K1 K2 (j1 + j2 * n)%nat a = K1 j1 a * K2 j2 a.
Proof.
  intros inside. unfold column_kronecker.
  rewrite Nat.mod_add, Nat.mod_small, Nat.div_add, Nat.div_small by lia. reflexivity.
Qed.

(** Lemma C.3, part 1: (A_1 (x) A_2)^T (B_1 (x) B_2) is the entrywise product of A_1^T B_1 and A_2^T B_2. *)
Theorem kronecker_lemma_c_3 (n : nat) (A1 A2 B1 B2 : matrix) (k1 k2 : nat) :
  transposed_product (n * n) (column_kronecker n A1 A2) (column_kronecker n B1 B2) k1 k2 =
  hadamard (transposed_product n A1 B1) (transposed_product n A2 B2) k1 k2.
Proof.
  unfold hadamard, transposed_product. rewrite sum_upto_pairs. unfold sum_upto at 3 4.
  rewrite sum_product. apply sum_ext; intros j2 _. apply sum_upto_ext; intros j1 inside.
  rewrite !column_kronecker_at by exact inside. ring.
Qed.

(** The proof of Lemma C.3 prints A^T B as the sum of A_{*,i} B_{*,i}^T over n^2 columns of A and of B. Where these have
    n^2 columns, this is A B^T. *)
Definition lemma_c_3_proof_as_printed : Prop :=
  forall (n : nat) (A1 A2 B1 B2 : matrix) (k1 k2 : nat),
    (k1 < n * n)%nat -> (k2 < n * n)%nat ->
    transposed_product (n * n) (column_kronecker n A1 A2) (column_kronecker n B1 B2) k1 k2 =
    sum_upto (n * n) (fun i => column_kronecker n A1 A2 k1 i * column_kronecker n B1 B2 k2 i).

Theorem kronecker_lemma_c_3_proof_refuted : ~ lemma_c_3_proof_as_printed.
Proof.
  intros printed. pose (first_column := fun (_ j : nat) => if (j =? 0)%nat then 1 else 0 : R).
  specialize (printed 2%nat first_column first_column first_column first_column 0%nat 0%nat).
  unfold transposed_product, column_kronecker, first_column, sum_upto in printed; simpl in printed.
  specialize (printed ltac:(lia) ltac:(lia)). lra.
Qed.

(** The sum over the rows, as the erratum corrects it, is A^T B by definition: entry by entry, the n^2 products of row
    (i, j) of A with row (i, j) of B. *)
Theorem kronecker_lemma_c_3_proof (n : nat) (A1 A2 B1 B2 : matrix) (k1 k2 : nat) :
  transposed_product (n * n) (column_kronecker n A1 A2) (column_kronecker n B1 B2) k1 k2 =
  sum_upto n (fun j => sum_upto n (fun i => (A1 i k1 * A2 j k1) * (B1 i k2 * B2 j k2))).
Proof.
  unfold transposed_product. rewrite sum_upto_pairs.
  apply sum_upto_ext; intros j _. apply sum_upto_ext; intros i inside.
  now rewrite !column_kronecker_at by exact inside.
Qed.

(** A_1 must meet B_1: with A_1^T B_2 and A_2^T B_1 the identity is false. *)
Theorem kronecker_lemma_c_3_crossed_refuted :
  exists (n : nat) (A1 A2 B1 B2 : matrix) (k1 k2 : nat),
    transposed_product (n * n) (column_kronecker n A1 A2) (column_kronecker n B1 B2) k1 k2 <>
    hadamard (transposed_product n A1 B2) (transposed_product n A2 B1) k1 k2.
Proof.
  pose (first_row := fun (i _ : nat) => if (i =? 0)%nat then 1 else 0 : R).
  exists 2%nat, first_row, ones, first_row, ones, 0%nat, 0%nat.
  unfold hadamard, transposed_product, column_kronecker, first_row, ones, sum_upto; simpl. lra.
Qed.

(** Lemma C.5, part 1: column j_1 + j_2 n (in the paper's count from 1, j_1 + (j_2 - 1) n) of Q (K_1 (x) K_2)^T is the
    pair (j_1, j_2) of the tensor of triple inner products. *)
Theorem kronecker_lemma_c_5_part_1 (n d : nat) (Q K1 K2 : matrix) (i j1 j2 : nat) :
  (j1 < n)%nat ->
  scores n d Q K1 K2 i (j1 + j2 * n)%nat = triple_product d Q K1 K2 i j1 j2.
Proof.
  intros inside. unfold scores, product, triple_product, transpose. apply sum_upto_ext; intros a _.
  rewrite column_kronecker_at by exact inside. ring.
Qed.

(** Lemma C.5, part 2: the row sums of Q (K_1 (x) K_2)^T are A(I, 1, 1), and need only the column sums of the keys. *)
Theorem kronecker_lemma_c_5_part_2 (n d : nat) (Q K1 K2 : matrix) (i : nat) :
  (i < n)%nat ->
  sum_upto (n * n) (scores n d Q K1 K2 i) =
    tensor_operator n (triple_product d Q K1 K2) identity_matrix ones ones i 0%nat 0%nat /\
  sum_upto (n * n) (scores n d Q K1 K2 i) =
    triple_product d Q (transposed_product n ones K1) (transposed_product n ones K2) i 0%nat 0%nat.
Proof.
  intros inside.
  assert (pairs : sum_upto (n * n) (scores n d Q K1 K2 i) =
                  sum_upto n (fun j2 => sum_upto n (fun j1 => triple_product d Q K1 K2 i j1 j2))).
  { rewrite sum_upto_pairs. apply sum_upto_ext; intros j2 _. apply sum_upto_ext; intros j1 below.
    now apply kronecker_lemma_c_5_part_1. }
  rewrite pairs. split.
  - unfold tensor_operator, ones.
    assert (select : forall m f, sum_upto m (fun a => f a * identity_matrix a i) = if (i <? m)%nat then f i else 0).
    { clear. intros m f. induction m as [| m IH]; [reflexivity |].
      rewrite sum_upto_S, IH. unfold identity_matrix.
      destruct (Nat.ltb_spec i m), (Nat.ltb_spec i (S m)), (Nat.eqb_spec m i); try lia; subst; try lra. }
    symmetry. rewrite (sum_upto_ext n _ (fun a =>
      sum_upto n (fun b => sum_upto n (fun c => triple_product d Q K1 K2 a b c)) * identity_matrix a i)).
    + rewrite select. destruct (Nat.ltb_spec i n); [| lia]. apply (sum_exchange (seq 0 n) (seq 0 n) (triple_product d Q K1 K2 i)).
    + intros a _. unfold sum_upto. rewrite <- sum_mult_r. apply sum_ext; intros b _.
      rewrite <- sum_mult_r. apply sum_ext; intros c _. ring.
  - unfold triple_product, transposed_product, ones, sum_upto.
    rewrite (sum_ext (seq 0 n) _ (fun j2 => sum (seq 0 d) (fun a =>
      Q i a * sum (seq 0 n) (fun r => 1 * K1 r a) * K2 j2 a))).
    + rewrite sum_exchange. apply sum_ext; intros a _. rewrite sum_mult_l. f_equal.
      apply sum_ext; intros r _; ring.
    + intros j2 _. rewrite sum_exchange. apply sum_ext; intros a _.
      rewrite (sum_ext _ (fun i0 => Q i a * K1 i0 a * K2 j2 a) (fun r => (Q i a * K2 j2 a) * (1 * K1 r a)))
        by (intros; ring).
      rewrite sum_mult_l. ring.
Qed.

(** Lemma C.5, part 3: Q (K_1 (x) K_2)^T (V_1 (x) V_2) is Q times the entrywise product of K_1^T V_1 and K_2^T V_2. *)
Theorem kronecker_lemma_c_5_part_3 (n d : nat) (Q K1 K2 V1 V2 : matrix) (i j : nat) :
  product (n * n) (scores n d Q K1 K2) (column_kronecker n V1 V2) i j =
  product d Q (hadamard (transposed_product n K1 V1) (transposed_product n K2 V2)) i j.
Proof.
  unfold product at 2. unfold product, scores, product, transpose, sum_upto.
  rewrite (sum_ext (seq 0 (n * n)) _ (fun r => sum (seq 0 d) (fun a =>
    Q i a * (column_kronecker n K1 K2 r a * column_kronecker n V1 V2 r j)))).
  - rewrite sum_exchange. apply sum_ext; intros a _. rewrite sum_mult_l. f_equal.
    apply (kronecker_lemma_c_3 n K1 K2 V1 V2 a j).
  - intros r _. rewrite <- sum_mult_r. apply sum_ext; intros a _. ring.
Qed.

(** The first index runs fastest: with column j_2 + j_1 n for the pair (j_1, j_2), part 1 is false. *)
Theorem kronecker_lemma_c_5_part_1_transposed_refuted :
  exists (n d : nat) (Q K1 K2 : matrix) (i j1 j2 : nat),
    (j1 < n)%nat /\ (j2 < n)%nat /\ scores n d Q K1 K2 i (j2 + j1 * n)%nat <> triple_product d Q K1 K2 i j1 j2.
Proof.
  pose (first_row := fun (i _ : nat) => if (i =? 0)%nat then 1 else 0 : R).
  exists 2%nat, 1%nat, ones, first_row, ones, 0%nat, 0%nat, 1%nat.
  split; [lia |]. split; [lia |].
  unfold scores, product, transpose, column_kronecker, triple_product, first_row, ones, sum_upto; simpl. lra.
Qed.
