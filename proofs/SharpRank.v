(** The sharp rank of near-linear attention, in place of the count of Lemma E.1 of Alman and Song, "How to Capture
    Higher-order Correlations?".

    For a polynomial P of degree g, the tensor with the entries P(<x, y, z>) is a sum of C(d + g, g) products of a
    function of x, a function of y and a function of z. If no coefficient of P is 0, no smaller number of products is
    enough. Vectors are lists of d real numbers; a multi-index is a list of d natural numbers. *)

From Coq Require Import Reals List FinFun Lra Lia Arith.
From Separatrix Require Import FiniteSums.
Import ListNotations.
Open Scope R_scope.

(** * Multi-indices *)

(** All multi-indices of length d whose entries sum to at most g. *)
Fixpoint indices (d g : nat) : list (list nat) :=
  match d with
  | O => [[]]
  | S d' => flat_map (fun a => map (cons a) (indices d' (g - a))) (seq 0 (S g))
  end.

Fixpoint degree (alpha : list nat) : nat :=
  match alpha with [] => 0%nat | a :: rest => (a + degree rest)%nat end.

(** Pascal's triangle. *)
Fixpoint choose (n k : nat) : nat :=
  match n, k with
  | _, O => 1%nat
  | O, S _ => 0%nat
  | S n', S k' => (choose n' k' + choose n' (S k'))%nat
  end.

Lemma indices_spec (d g : nat) (alpha : list nat) :
  In alpha (indices d g) <-> length alpha = d /\ (degree alpha <= g)%nat.
Proof.
  revert g alpha. induction d as [| d IH]; intros g alpha.
  - cbn [indices In]. split.
    + intros [<- | []]. simpl. lia.
    + intros [len _]. left. destruct alpha; [reflexivity | discriminate].
  - cbn [indices]. rewrite in_flat_map. split.
    + intros [a [Ha inside]]. apply in_seq in Ha. apply in_map_iff in inside as [rest [<- inside]].
      apply IH in inside as [len sum]. simpl. lia.
    + intros [len sum]. destruct alpha as [| a rest]; [discriminate |]. simpl in len, sum.
      exists a. split; [apply in_seq; lia |]. apply in_map. apply IH. lia.
Qed.

Lemma indices_nodup (d g : nat) : NoDup (indices d g).
Proof.
  revert g. induction d as [| d IH]; intros g.
  - repeat constructor. easy.
  - cbn [indices]. generalize (seq_NoDup (S g) 0). generalize (seq 0 (S g)). intros l distinct.
    induction l as [| a l IHl]; simpl; [constructor |]. inversion distinct; subst.
    assert (separate : forall x, In x (map (cons a) (indices d (g - a))) ->
                                 ~ In x (flat_map (fun b => map (cons b) (indices d (g - b))) l)).
    { intros x here there. apply in_map_iff in here as [u [<- _]].
      apply in_flat_map in there as [b [Hb there]]. apply in_map_iff in there as [u' [same _]].
      injection same as -> _. easy. }
    assert (first : NoDup (map (cons a) (indices d (g - a)))).
    { apply Injective_map_NoDup; [| apply IH]. intros u u' same. now injection same. }
    revert separate first. generalize (map (cons a) (indices d (g - a))). intros m separate first.
    induction m as [| x m IHm]; simpl; [now apply IHl |]. inversion first; subst. constructor.
    + rewrite in_app_iff. intros [inside | inside]; [easy |]. apply (separate x); [now left | exact inside].
    + apply IHm; [intros u Hu; apply separate; now right | assumption].
Qed.

(** There are C(d + g, g) multi-indices. *)
Theorem kronecker_lemma_e_1_count (d g : nat) : length (indices d g) = choose (d + g) g.
Proof.
  revert g. induction d as [| d IH]; intros g.
  - simpl. induction g as [| g IHg]; [reflexivity |]. simpl.
    assert (none : forall n k, (n < k)%nat -> choose n k = 0%nat).
    { clear. induction n as [| n IHn]; intros k above; destruct k as [| k]; try lia; simpl; [reflexivity |].
      rewrite !IHn by lia. reflexivity. }
    rewrite (none g (S g)) by lia. lia.
  - induction g as [| g IHg].
    + cbn [indices seq flat_map]. rewrite app_nil_r, map_length, IH.
      rewrite !Nat.add_0_r. destruct d; reflexivity.
    + assert (step : length (indices (S d) (S g)) = (length (indices d (S g)) + length (indices (S d) g))%nat).
      { cbn [indices]. change (seq 0 (S (S g))) with (0%nat :: seq 1 (S g)). cbn [flat_map].
        rewrite app_length, map_length, Nat.sub_0_r. f_equal.
        rewrite <- seq_shift. generalize (seq 0 (S g)). intros l. induction l as [| a l IHl]; [reflexivity |].
        cbn [map flat_map]. rewrite !app_length, !map_length, IHl. reflexivity. }
      rewrite step, IH, IHg. replace (S d + S g)%nat with (S (d + S g)) by lia. cbn [choose].
      replace (S d + g)%nat with (d + S g)%nat by lia. lia.
Qed.

(** * The expansion *)

(** x^alpha = prod_l x_l^alpha_l *)
Fixpoint monomial (x : list R) (alpha : list nat) : R :=
  match x, alpha with
  | a :: x', p :: alpha' => a ^ p * monomial x' alpha'
  | _, _ => 1
  end.

(** <x, y, z> = sum_l x_l y_l z_l *)
Fixpoint inner3 (x y z : list R) : R :=
  match x, y, z with
  | a :: x', b :: y', c :: z' => a * b * c + inner3 x' y' z'
  | _, _, _ => 0
  end.

(** P(s) = a_0 + a_1 s + ... + a_g s^g *)
Definition polynomial (a : nat -> R) (g : nat) (s : R) : R := sum_upto (S g) (fun p => a p * s ^ p).

(** alpha! = prod_l alpha_l! *)
Fixpoint factorials (alpha : list nat) : R :=
  match alpha with [] => 1 | p :: rest => INR (fact p) * factorials rest end.

(** The coefficient of x^alpha in P(sum_l x_l): a_{|alpha|} |alpha|! / alpha!. *)
Definition coefficient (a : nat -> R) (alpha : list nat) : R :=
  a (degree alpha) * INR (fact (degree alpha)) / factorials alpha.

Lemma factorials_pos alpha : 0 < factorials alpha.
Proof. induction alpha as [| p rest IH]; simpl; [lra |]. apply Rmult_lt_0_compat; [apply INR_fact_lt_0 | exact IH]. Qed.

Definition total (w : list R) : R := fold_right Rplus 0 w.

Lemma sum_f_R0_upto f n : sum_f_R0 f n = sum_upto (S n) f.
Proof.
  induction n as [| n IH]; [unfold sum_upto; simpl; lra |]. rewrite sum_upto_S. simpl. now rewrite IH.
Qed.

(** The sum over pairs (p, k) with k <= p <= g, by k first. *)
Lemma triangle (g : nat) (f : nat -> nat -> R) :
  sum_upto (S g) (fun p => sum_upto (S p) (fun k => f p k)) =
  sum_upto (S g) (fun k => sum_upto (S (g - k)) (fun p => f (p + k)%nat k)).
Proof.
  induction g as [| g IH]; [reflexivity |].
  rewrite (sum_upto_S (S g)), IH. clear IH.
  set (inner := fun k => sum_upto (S (g - k)) (fun p => f (p + k)%nat k)).
  transitivity (sum_upto (S g) (fun k => inner k + f (S g) k) + f (S g) (S g)).
  - rewrite (sum_upto_S (S g) (fun k => f (S g) k)).
    change (sum_upto (S g) (fun k => inner k + f (S g) k)) with (sum (seq 0 (S g)) (fun k => inner k + f (S g) k)).
    rewrite sum_plus. unfold sum_upto. change (fun k => f (S g) k) with (f (S g)). lra.
  - rewrite (sum_upto_S (S g)), Nat.sub_diag. f_equal.
    + apply sum_upto_ext; intros k Hk. replace (S g - k)%nat with (S (g - k)) by lia.
      unfold inner. rewrite (sum_upto_S (S (g - k))). f_equal. f_equal. lia.
    + unfold sum_upto; simpl. lra.
Qed.

Lemma expand_sum (d g : nat) (a : nat -> R) (w : list R) :
  length w = d ->
  polynomial a g (total w) = sum (indices d g) (fun alpha => coefficient a alpha * monomial w alpha).
Proof.
  revert g a w. induction d as [| d IH]; intros g a w len.
  - destruct w; [| discriminate]. unfold polynomial, coefficient. rewrite sum_upto_first. simpl.
    rewrite (sum_upto_ext g _ (fun _ => 0)) by (intros; ring). unfold sum_upto. rewrite sum_zero. field.
  - destruct w as [| w0 w]; [discriminate |]. injection len as len.
    cbn [indices]. rewrite sum_flat_map. change (total (w0 :: w)) with (w0 + total w).
    unfold polynomial. rewrite (sum_upto_ext (S g) _ (fun p => sum_upto (S p) (fun k =>
      a p * (C p k * w0 ^ k * total w ^ (p - k))))).
    2: { intros p _. rewrite binomial, sum_f_R0_upto. unfold sum_upto. now rewrite sum_mult_l. }
    rewrite triangle. apply sum_upto_ext; intros k Hk. rewrite sum_map.
    set (b := fun p => a (p + k)%nat * C (p + k) k).
    rewrite (sum_upto_ext (S (g - k)) _ (fun p => w0 ^ k * (b p * total w ^ p))).
    2: { intros p _. unfold b. replace (p + k - k)%nat with p by lia. ring. }
    unfold sum_upto. rewrite sum_mult_l. 
    change (sum (seq 0 (S (g - k))) (fun p => b p * total w ^ p)) with (polynomial b (g - k) (total w)). rewrite (IH (g - k)%nat b w len).
    rewrite <- sum_mult_l. apply sum_ext; intros alpha _. simpl.
    replace (coefficient a (k :: alpha)) with (coefficient b alpha); [ring |].
    unfold coefficient, b. simpl. rewrite (Nat.add_comm (degree alpha) k). unfold C.
    replace (k + degree alpha - k)%nat with (degree alpha) by lia.
    pose proof (factorials_pos alpha). pose proof (INR_fact_lt_0 k). pose proof (INR_fact_lt_0 (degree alpha)).
    field. repeat split; lra.
Qed.

Fixpoint hadamard3 (x y z : list R) : list R :=
  match x, y, z with
  | a :: x', b :: y', c :: z' => a * b * c :: hadamard3 x' y' z'
  | _, _, _ => []
  end.

Lemma hadamard3_facts (d : nat) (x y z : list R) :
  length x = d -> length y = d -> length z = d ->
  length (hadamard3 x y z) = d /\ total (hadamard3 x y z) = inner3 x y z /\
  (forall alpha, monomial (hadamard3 x y z) alpha = monomial x alpha * monomial y alpha * monomial z alpha).
Proof.
  revert x y z. induction d as [| d IH]; intros x y z lx ly lz;
    destruct x as [| a x], y as [| b y], z as [| c z]; try discriminate.
  - repeat split. intros alpha. destruct alpha; simpl; ring.
  - injection lx as lx. injection ly as ly. injection lz as lz.
    destruct (IH x y z lx ly lz) as [len [tot mon]]. simpl. repeat split.
    + now rewrite len.
    + unfold total in *. now rewrite <- tot.
    + intros alpha. destruct alpha as [| p alpha]; [ring |]. rewrite mon, !Rpow_mult_distr. ring.
Qed.

(** P(<x, y, z>) is a sum over the C(d + g, g) multi-indices of a function of x times one of y times one of z: every
    factor of a monomial has the same multi-index. *)
Theorem kronecker_lemma_e_1_sharp (d g : nat) (a : nat -> R) (x y z : list R) :
  length x = d -> length y = d -> length z = d ->
  polynomial a g (inner3 x y z) =
  sum (indices d g) (fun alpha => (coefficient a alpha * monomial x alpha) * monomial y alpha * monomial z alpha).
Proof.
  intros lx ly lz. destruct (hadamard3_facts d x y z lx ly lz) as [len [tot mon]].
  rewrite <- tot, (expand_sum d g a _ len). apply sum_ext; intros alpha _. rewrite mon. ring.
Qed.

(** * No smaller number is enough *)

(** k equations in more than k unknowns have a solution that is not 0. The unknowns are named by natural numbers. *)
Lemma relation (k : nat) : forall (l : list nat) (f : nat -> nat -> R),
  NoDup l -> (k < length l)%nat ->
  exists u : nat -> R, (exists j, In j l /\ u j <> 0) /\
    forall r, (r < k)%nat -> sum l (fun j => u j * f j r) = 0.
Proof.
  induction k as [| k IH]; intros l f distinct more.
  - destruct l as [| j l]; [simpl in more; lia |].
    exists (fun _ => 1). split; [exists j; split; [now left | lra] | lia].
  - destruct (List.Forall_Exists_dec (fun j => f j k = 0) (fun j => Req_EM_T (f j k) 0) l) as [all | some].
    + destruct (IH l f distinct ltac:(lia)) as [u [nontrivial zero]].
      exists u. split; [exact nontrivial |]. intros r Hr.
      destruct (Nat.eq_dec r k) as [-> | other]; [| apply zero; lia].
      rewrite (sum_ext l _ (fun _ => 0)); [apply sum_zero |].
      intros j Hj. rewrite Forall_forall in all. rewrite (all j Hj). ring.
    + apply Exists_exists in some as [pivot [inside nonzero]].
      destruct (in_split pivot l inside) as [l1 [l2 ->]].
      pose proof (NoDup_remove_1 _ _ _ distinct) as distinct'. pose proof (NoDup_remove_2 _ _ _ distinct) as absent.
      rewrite app_length in more; simpl in more.
      destruct (IH (l1 ++ l2) (fun j r => f j r - f j k / f pivot k * f pivot r) distinct'
                  ltac:(rewrite app_length; lia)) as [u [[j [Hj uj]] zero]].
      set (v := - sum (l1 ++ l2) (fun i => u i * f i k) / f pivot k).
      set (w := fun i => if Nat.eq_dec i pivot then v else u i).
      assert (away : forall i, In i (l1 ++ l2) -> w i = u i).
      { intros i Hi. unfold w. destruct (Nat.eq_dec i pivot); [subst; easy | reflexivity]. }
      assert (at_pivot : w pivot = v) by (unfold w; destruct (Nat.eq_dec pivot pivot); easy).
      assert (split_sum : forall r, sum (l1 ++ pivot :: l2) (fun i => w i * f i r) =
                                    sum (l1 ++ l2) (fun i => u i * f i r) + v * f pivot r).
      { intros r. rewrite (sum_ext (l1 ++ l2) _ (fun i => w i * f i r)) by (intros; now rewrite away).
        rewrite !sum_app. simpl. rewrite at_pivot. ring. }
      exists w. split.
      * exists j. split; [| now rewrite away].
        apply in_app_or in Hj. apply in_or_app. simpl. tauto.
      * intros r Hr. rewrite split_sum. destruct (Nat.eq_dec r k) as [-> | other]; [unfold v; field; exact nonzero |].
        specialize (zero r ltac:(lia)). cbv beta in zero.
        rewrite (sum_ext _ _ (fun i => u i * f i r - u i * f i k * (f pivot r / f pivot k))) in zero
          by (intros; field; exact nonzero).
        rewrite sum_minus, sum_mult_r in zero. unfold v. unfold Rdiv in *. lra.
Qed.

(** A linear functional of functions on the reals: f -> f(2 x) - 2^b f(x) for each b of a list, then the value at 1. It
    multiplies the power x^e by prod_b (2^e - 2^b), so that it removes the powers in the list. *)
Fixpoint dilate (l : list nat) (f : R -> R) : R :=
  match l with
  | [] => f 1
  | b :: rest => dilate rest (fun x => f (2 * x) - 2 ^ b * f x)
  end.

Lemma dilate_ext l f g : (forall x, f x = g x) -> dilate l f = dilate l g.
Proof.
  revert f g. induction l as [| b l IH]; intros f g same; simpl; [apply same |]. apply IH. intros x. now rewrite !same.
Qed.

Lemma dilate_sum {I : Type} l (m : list I) (c : I -> R) (f : I -> R -> R) :
  dilate l (fun x => sum m (fun i => c i * f i x)) = sum m (fun i => c i * dilate l (f i)).
Proof.
  revert f. induction l as [| b l IH]; intros f; simpl; [reflexivity |]. rewrite <- IH. apply dilate_ext. intros x.
  rewrite <- sum_mult_l, <- sum_minus. apply sum_ext; intros; ring.
Qed.

Lemma dilate_power l e c : dilate l (fun x => c * x ^ e) = c * fold_right (fun b rest => (2 ^ e - 2 ^ b) * rest) 1 l.
Proof.
  revert c. induction l as [| b l IH]; intros c; simpl; [rewrite pow1; ring |].
  rewrite (dilate_ext _ _ (fun x => c * (2 ^ e - 2 ^ b) * x ^ e)) by (intros x; rewrite Rpow_mult_distr; ring).
  rewrite IH. ring.
Qed.

Lemma power_of_two_injective (e b : nat) : 2 ^ e = 2 ^ b -> e = b.
Proof.
  intros same. destruct (Nat.lt_trichotomy e b) as [less | [equal | less]]; [| exact equal |].
  - pose proof (Rlt_pow 2 e b ltac:(lra) less). lra.
  - pose proof (Rlt_pow 2 b e ltac:(lra) less). lra.
Qed.

Lemma factor_zero l e : In e l -> fold_right (fun b rest => (2 ^ e - 2 ^ b) * rest) 1 l = 0.
Proof. induction l as [| b l IH]; [easy |]. intros [-> | inside]; simpl; [ring | rewrite IH by exact inside; ring]. Qed.

Lemma factor_nonzero l e : ~ In e l -> fold_right (fun b rest => (2 ^ e - 2 ^ b) * rest) 1 l <> 0.
Proof.
  induction l as [| b l IH]; intros absent; simpl; [lra |].
  apply Rmult_integral_contrapositive_currified.
  - intros zero. apply absent. left. symmetry. apply power_of_two_injective. lra.
  - apply IH. intros inside. apply absent. now right.
Qed.

(** The powers of a list without e. *)
Definition others (l : list nat) (e : nat) : list nat := remove Nat.eq_dec e l.

(** A kernel sum_e c_e (s t)^e over N different powers, no c_e zero, is no sum of less than N products. *)
Lemma kernel_rank (l : list nat) (c : nat -> R) (k : nat) (f h : nat -> R -> R) :
  NoDup l -> (forall e, In e l -> c e <> 0) ->
  (forall s t, sum l (fun e => c e * (s * t) ^ e) = sum_upto k (fun r => f r s * h r t)) ->
  (length l <= k)%nat.
Proof.
  intros distinct nonzero factors. destruct (Nat.le_gt_cases (length l) k) as [| less]; [assumption | exfalso].
  destruct (relation k l (fun e r => dilate (others l e) (f r)) distinct less) as [u [[e [He ue]] zero]].
  set (value := fun e => fold_right (fun b rest => (2 ^ e - 2 ^ b) * rest) 1 (others l e)).
  assert (value0 : forall e, value e <> 0).
  { intros j. apply factor_nonzero. apply remove_In. }
  (* The functional of power j applied to the first variable leaves c_j value_j t^j. *)
  assert (first : forall j t, In j l ->
            c j * value j * t ^ j = sum_upto k (fun r => dilate (others l j) (f r) * h r t)).
  { intros j t Hj.
    assert (both : dilate (others l j) (fun s => sum l (fun i => (c i * t ^ i) * s ^ i)) =
                   dilate (others l j) (fun s => sum_upto k (fun r => h r t * f r s))).
    { apply dilate_ext. intros s. transitivity (sum l (fun i => c i * (s * t) ^ i)).
      - apply sum_ext; intros i _. rewrite Rpow_mult_distr. ring.
      - rewrite factors. apply sum_ext; intros; ring. }
    unfold sum_upto in both |- *. rewrite dilate_sum in both.
    rewrite (dilate_sum _ (seq 0 k) (fun r => h r t) f) in both.
    rewrite (sum_ext (seq 0 k) _ (fun r => h r t * dilate (others l j) (f r))) by (intros; ring).
    rewrite <- both. clear both.
    assert (single : forall m, NoDup m -> In j m -> incl m l ->
              sum m (fun i => c i * t ^ i * dilate (others l j) (fun s => s ^ i)) = c j * value j * t ^ j).
    { assert (vanish : forall i, In i l -> i <> j -> dilate (others l j) (fun s => s ^ i) = 0).
      { intros i Hi other. rewrite (dilate_ext _ _ (fun x => 1 * x ^ i)) by (intros; ring).
        rewrite dilate_power, factor_zero; [ring |]. unfold others. apply in_in_remove; assumption. }
      induction m as [| i m IHm]; intros nodup inside inc; [easy |]. inversion nodup; subst. simpl.
      destruct (Nat.eq_dec i j) as [-> | other].
      - rewrite (sum_ext m _ (fun _ => 0)).
        + rewrite sum_zero, (dilate_ext _ _ (fun x => 1 * x ^ j)), dilate_power by (intros; ring).
          unfold value. ring.
        + intros i Hi. rewrite vanish; [ring | apply inc; now right | intros ->; easy].
      - rewrite vanish by (try apply inc; try (now left); exact other).
        rewrite IHm; [ring | assumption | destruct inside; [congruence | assumption] |].
        intros x Hx. apply inc. now right. }
    symmetry. apply single; [assumption | assumption | intros x Hx; exact Hx]. }
  assert (relation_of_powers : forall t, sum l (fun j => u j * c j * value j * t ^ j) = 0).
  { intros t. rewrite (sum_ext l _ (fun j => sum_upto k (fun r => u j * dilate (others l j) (f r) * h r t))).
    - unfold sum_upto. rewrite sum_exchange. rewrite <- (sum_zero (seq 0 k)). apply sum_ext; intros r Hr.
      rewrite sum_mult_r, (zero r) by now apply in_upto. ring.
    - intros j Hj. replace (u j * c j * value j * t ^ j) with (u j * (c j * value j * t ^ j)) by ring.
      rewrite (first j t Hj). unfold sum_upto. rewrite <- sum_mult_l. apply sum_ext; intros; ring. }
  assert (dilated : dilate (others l e) (fun t => sum l (fun j => (u j * c j * value j) * t ^ j)) = 0).
  { rewrite (dilate_ext _ _ (fun x => 0 * x ^ 0)) by (intros t; rewrite relation_of_powers; ring).
    rewrite dilate_power. ring. }
  rewrite dilate_sum in dilated.
  assert (only : sum l (fun j => u j * c j * value j * dilate (others l e) (fun t => t ^ j)) =
                 u e * c e * value e * value e).
  { clear - He distinct. assert (inc : incl l l) by (intros x Hx; exact Hx). revert distinct He inc.
    generalize l at 1 2 3 5 as m. induction m as [| i m IHm]; intros nodup inside inc; [easy |].
    inversion nodup; subst. simpl.
    assert (vanish : forall i, In i l -> i <> e -> dilate (others l e) (fun s => s ^ i) = 0).
    { intros p Hp other. rewrite (dilate_ext _ _ (fun x => 1 * x ^ p)) by (intros; ring).
      rewrite dilate_power, factor_zero; [ring |]. unfold others. apply in_in_remove; assumption. }
    destruct (Nat.eq_dec i e) as [-> | other].
    - rewrite (sum_ext m _ (fun _ => 0)).
      + rewrite sum_zero, (dilate_ext _ _ (fun x => 1 * x ^ e)), dilate_power by (intros; ring).
        unfold value at 2. ring.
      + intros p Hp. rewrite vanish; [ring | apply inc; now right | intros ->; easy].
    - rewrite vanish by (try apply inc; try (now left); exact other).
      rewrite IHm; [ring | assumption | destruct inside; [congruence | assumption] |].
      intros x Hx. apply inc. now right. }
  rewrite only in dilated. specialize (nonzero e He). specialize (value0 e).
  apply Rmult_integral in dilated as [dilated |]; [| contradiction].
  apply Rmult_integral in dilated as [dilated |]; [| contradiction].
  apply Rmult_integral in dilated as [|]; contradiction.
Qed.

(** The multi-index as a number whose digits to the base g + 1 are its entries. *)
Fixpoint code (g : nat) (alpha : list nat) : nat :=
  match alpha with [] => 0%nat | a :: rest => (a + S g * code g rest)%nat end.

Lemma code_injective (g : nat) (alpha beta : list nat) :
  length alpha = length beta -> (degree alpha <= g)%nat -> (degree beta <= g)%nat ->
  code g alpha = code g beta -> alpha = beta.
Proof.
  revert beta. induction alpha as [| a alpha IH]; intros beta len low low' same;
    destruct beta as [| b beta]; try discriminate; [reflexivity |].
  cbn [code degree length] in *.
  assert (a = b).
  { apply (f_equal (fun n => n mod S g)) in same.
    rewrite (Nat.mul_comm (S g)), (Nat.mul_comm (S g) (code g beta)), !Nat.mod_add, !Nat.mod_small in same by lia.
    exact same. }
  subst b. f_equal. apply IH; try lia. nia.
Qed.

(** The point (t, t^(g+1), t^((g+1)^2), ...), whose monomial alpha is t^(code alpha). *)
Fixpoint curve (d g : nat) (t : R) : list R :=
  match d with O => [] | S d' => t :: curve d' g (t ^ S g) end.

Lemma curve_length d g t : length (curve d g t) = d.
Proof. revert t. induction d as [| d IH]; intros t; [reflexivity |]. cbn [curve length]. now rewrite IH. Qed.

Lemma curve_monomial d g t alpha : length alpha = d -> monomial (curve d g t) alpha = t ^ code g alpha.
Proof.
  revert t alpha. induction d as [| d IH]; intros t alpha len; destruct alpha as [| a alpha]; try discriminate;
    [reflexivity |].
  injection len as len. cbn [curve monomial code]. rewrite IH by exact len. now rewrite pow_add, pow_mult.
Qed.

Lemma monomial_ones d alpha : monomial (repeat 1 d) alpha = 1.
Proof.
  revert alpha. induction d as [| d IH]; intros alpha; [reflexivity |].
  destruct alpha as [| a alpha]; [reflexivity |]. cbn [repeat monomial]. rewrite IH, pow1. ring.
Qed.

(** If no coefficient of P is 0, maps of x, y and z to R^k whose triple inner product is P(<x, y, z>) for all vectors have
    k >= C(d + g, g). *)
Theorem kronecker_lemma_e_1_no_fewer (d g k : nat) (a : nat -> R) (phi_x phi_y phi_z : nat -> list R -> R) :
  (forall p, (p <= g)%nat -> a p <> 0) ->
  (forall x y z, length x = d -> length y = d -> length z = d ->
     polynomial a g (inner3 x y z) = sum_upto k (fun r => phi_x r x * phi_y r y * phi_z r z)) ->
  (choose (d + g) g <= k)%nat.
Proof.
  intros nonzero factors. rewrite <- kronecker_lemma_e_1_count, <- (map_length (code g)).
  pose (decode := fun e => match find (fun alpha => code g alpha =? e)%nat (indices d g) with
                           | Some alpha => coefficient a alpha
                           | None => 0
                           end).
  assert (decoded : forall alpha, In alpha (indices d g) -> decode (code g alpha) = coefficient a alpha).
  { intros alpha Ha. unfold decode. destruct (find _ (indices d g)) as [beta |] eqn:found.
    - apply find_some in found as [Hb same]. apply Nat.eqb_eq in same. f_equal.
      apply indices_spec in Ha as [la da]. apply indices_spec in Hb as [lb db].
      symmetry. apply (code_injective g); congruence || lia.
    - pose proof (find_none _ _ found alpha Ha) as different. cbv beta in different.
      rewrite Nat.eqb_refl in different. discriminate. }
  apply (kernel_rank _ decode k (fun r s => phi_x r (curve d g s) * phi_y r (repeat 1 d))
           (fun r t => phi_z r (curve d g t))).
  - pose proof (indices_nodup d g) as distinct.
    assert (all : forall m, NoDup m -> incl m (indices d g) -> NoDup (map (code g) m)).
    { induction m as [| alpha m IHm]; intros nodup inc; [constructor |]. inversion nodup; subst. simpl. constructor.
      - intros inside. apply in_map_iff in inside as [beta [same Hb]].
        assert (In alpha (indices d g)) as Ha by (apply inc; now left).
        assert (In beta (indices d g)) as Hb' by (apply inc; now right).
        apply indices_spec in Ha as [la da]. apply indices_spec in Hb' as [lb db].
        assert (beta = alpha) by (apply (code_injective g); congruence || lia). now subst.
      - apply IHm; [assumption |]. intros x Hx. apply inc. now right. }
    apply all; [exact distinct | intros x Hx; exact Hx].
  - intros e He. apply in_map_iff in He as [alpha [<- Ha]]. rewrite decoded by exact Ha.
    apply indices_spec in Ha as [_ da]. unfold coefficient, Rdiv.
    pose proof (factorials_pos alpha). pose proof (INR_fact_lt_0 (degree alpha)).
    repeat apply Rmult_integral_contrapositive_currified; [now apply nonzero | lra | apply Rinv_neq_0_compat; lra].
  - intros s t. rewrite sum_map, <- (factors (curve d g s) (repeat 1 d) (curve d g t));
      [| apply curve_length | apply repeat_length | apply curve_length].
    rewrite (kronecker_lemma_e_1_sharp d g a (curve d g s) (repeat 1 d) (curve d g t));
      [| apply curve_length | apply repeat_length | apply curve_length].
    apply sum_ext; intros alpha Ha. rewrite decoded by exact Ha. apply indices_spec in Ha as [la _].
    rewrite monomial_ones, !curve_monomial by exact la. rewrite Rpow_mult_distr. ring.
Qed.

(** At d = 8 and g = 4 there are 495 products, where Lemma E.1 counts C(3 (d + g), 3 g) = 1,251,677,700. *)
Theorem kronecker_lemma_e_1_example : choose (8 + 4) 4 = 495%nat.
Proof. reflexivity. Qed.
