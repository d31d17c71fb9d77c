-------------------------- MODULE MCRequestLifecycle --------------------------
(* Weaker specifications for TLC, each short of one thing a scheduler owes.  *)
(* Bounds are in the .cfg files, with the result each must have. No symmetry *)
(* is declared anywhere: it is unsound for liveness, and would change the    *)
(* numbers of states that are compared.                                      *)
EXTENDS RequestLifecycle

WithoutPatience == Lifecycle /\ Service /\ Room

WithoutRoom == Lifecycle /\ Service /\ Patience

(* Pages that a request could take without a break it takes at last.         *)
WeakService == \A r \in Requests : WF_vars(Takes(r)) /\ Computing(r)

WithWeakService == Lifecycle /\ WeakService /\ Room /\ Patience

(* Only recompute-pauses are counted: suspensions may go on for ever.        *)
PatienceWithRecompute == \A r \in Requests :
  []<><<RecomputePause(r)>>_vars => []<>(phase[r] = "finished")

WithEndlessSuspension == Lifecycle /\ Service /\ Room /\ PatienceWithRecompute

(* False of a specification with a behaviour in which every place finishes   *)
(* requests again and again: the guard against assumptions that contradict   *)
(* each other, of which everything would be true.                            *)
FinishingStops == \E r \in Requests : <>[][~Finish(r)]_vars
===============================================================================
