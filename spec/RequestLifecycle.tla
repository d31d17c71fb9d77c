--------------------------- MODULE RequestLifecycle ---------------------------
(*****************************************************************************)
(* What any scheduler of LLM requests must respect under KV-cache pressure.  *)
(*                                                                           *)
(* - Requests take pages of a GPU of fixed size, all or nothing, compute     *)
(*   their tokens chunk by chunk, and give every page back when they end.    *)
(* - A request may be suspended: its pages are kept, and may move to a host  *)
(*   tier. Or recompute-paused: it gives its pages back and later replays    *)
(*   its prompt and all tokens it generated, from position 0.                *)
(* - Who is given up for whom is left open: any choice is a behaviour here.  *)
(*   What a choice must keep for every request to finish is said under       *)
(*   "What a scheduler owes".                                                *)
(*                                                                           *)
(* Pages are counted, not named. A page that nobody has may still cache a    *)
(* prefix; such a page can be dropped at any time and counts as free. An     *)
(* element of Requests is a place that requests occupy one after the other,  *)
(* so arrivals never end.                                                    *)
(*****************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
  Requests,     \* places for requests that are live at the same time
  GpuPages,     \* pages of the GPU
  HostPages,    \* pages of the host; 0: there is no tier below the GPU
  PageTokens,   \* tokens of one request that a page holds
  ChunkTokens,  \* the most tokens of one request computed at once
  Prompts,      \* lengths of prompts, in tokens
  Outputs       \* tokens a request generates, the most or until it stops by itself

ASSUME RequestLifecycleAssumptions ==
  /\ IsFiniteSet(Requests)
  /\ GpuPages \in Nat \ {0} /\ HostPages \in Nat
  /\ PageTokens \in Nat \ {0} /\ ChunkTokens \in Nat \ {0}
  /\ Prompts \subseteq Nat \ {0} /\ Outputs \subseteq Nat \ {0}

VARIABLES
  phase,      \* where each request stands
  tokens,     \* tokens each request knows: its prompt and what it generated so far
  left,       \* tokens each will still generate; no scheduler knows it
  computed,   \* tokens of each whose keys and values are in its pages
  gpu,        \* pages each has on the GPU
  host,       \* pages each has on the host
  freeGpu,    \* GPU pages nobody has
  freeHost    \* host pages nobody has

pages == <<gpu, host, freeGpu, freeHost>>
vars == <<phase, tokens, left, computed, pages>>

Vacant == {"new", "finished"}   \* a finished request's place is as good as new
Live == {"waiting", "active", "suspended", "recompute-paused"}
Chunks == 1..ChunkTokens

TypeInvariant ==
  /\ phase \in [Requests -> Vacant \cup Live]
  /\ tokens \in [Requests -> Nat] /\ left \in [Requests -> Nat]
  /\ computed \in [Requests -> Nat]
  /\ gpu \in [Requests -> 0..GpuPages] /\ host \in [Requests -> 0..HostPages]
  /\ freeGpu \in 0..GpuPages /\ freeHost \in 0..HostPages

-------------------------------------------------------------------------------

(* Pages that n tokens of one request fill, the last one perhaps in part.    *)
Pages(n) == (n + PageTokens - 1) \div PageTokens

(* The last token a request generates is never computed.                     *)
Feasible(prompt, output) == Pages(prompt + output - 1) <= GpuPages

(* Initially nobody has arrived and every page is free.                      *)
Init ==
  /\ phase = [r \in Requests |-> "new"]
  /\ tokens = [r \in Requests |-> 0] /\ left = [r \in Requests |-> 0]
  /\ computed = [r \in Requests |-> 0]
  /\ gpu = [r \in Requests |-> 0] /\ host = [r \in Requests |-> 0]
  /\ freeGpu = GpuPages /\ freeHost = HostPages

(* The row of the lifecycle's table that an action carries out.              *)
Goes(r, sources, target) ==
  /\ phase[r] \in sources
  /\ phase' = [phase EXCEPT ![r] = target]

TakeGpu(r, n) ==   \* guard pages_fit: room may first be made by Migrate and by giving up others
  /\ n <= freeGpu
  /\ gpu' = [gpu EXCEPT ![r] = @ + n] /\ freeGpu' = freeGpu - n

ReleasePages(r) ==
  /\ freeGpu' = freeGpu + gpu[r] /\ gpu' = [gpu EXCEPT ![r] = 0]
  /\ freeHost' = freeHost + host[r] /\ host' = [host EXCEPT ![r] = 0]

ForgetTokens(r) ==
  /\ tokens' = [tokens EXCEPT ![r] = 0] /\ left' = [left EXCEPT ![r] = 0]
  /\ computed' = [computed EXCEPT ![r] = 0]

-------------------------------------------------------------------------------

(* A request arrives that the GPU could hold to its last token, alone.       *)
Arrive(r, prompt, output) ==
  /\ Goes(r, Vacant, "waiting")
  /\ Feasible(prompt, output)
  /\ tokens' = [tokens EXCEPT ![r] = prompt] /\ left' = [left EXCEPT ![r] = output]
  /\ UNCHANGED <<computed, pages>>

(* One that could never fit is told so at once. Nobody else is refused.      *)
Refuse(r, prompt, output) ==
  /\ Goes(r, Vacant, "finished")
  /\ ~Feasible(prompt, output)
  /\ UNCHANGED <<tokens, left, computed, pages>>

(* A request without pages gets those of its first n tokens, or none.        *)
Admit(r, n) ==
  /\ Goes(r, {"waiting", "recompute-paused"}, "active")
  /\ n <= tokens[r]
  /\ TakeGpu(r, Pages(n))
  /\ UNCHANGED <<tokens, left, computed, host, freeHost>>

(* It gets the pages it lacks for its next n tokens, or none.                *)
Grow(r, n) ==
  /\ Goes(r, {"active"}, "active")
  /\ left[r] > 0 /\ computed[r] + n <= tokens[r]
  /\ Pages(computed[r] + n) > gpu[r]
  /\ TakeGpu(r, Pages(computed[r] + n) - gpu[r])
  /\ UNCHANGED <<tokens, left, computed, host, freeHost>>

(* Its next n tokens are computed into pages it has. The last token known    *)
(* yields the next one: that ends a prefill and makes every decode. One that *)
(* stops early is one that arrived with a shorter output: nobody can tell.   *)
Schedule(r, n) ==
  /\ Goes(r, {"active"}, "active")
  /\ left[r] > 0 /\ computed[r] + n <= tokens[r]
  /\ Pages(computed[r] + n) <= gpu[r]
  /\ computed' = [computed EXCEPT ![r] = @ + n]
  /\ IF computed[r] + n = tokens[r]
     THEN tokens' = [tokens EXCEPT ![r] = @ + 1] /\ left' = [left EXCEPT ![r] = @ - 1]
     ELSE UNCHANGED <<tokens, left>>
  /\ UNCHANGED pages

(* It stops computing and keeps its pages. Nothing is copied, nothing freed. *)
Suspend(r) ==
  /\ Goes(r, {"active"}, "suspended")
  /\ HostPages > 0 /\ left[r] > 0
  /\ UNCHANGED <<tokens, left, computed, pages>>

(* One of its pages moves to the host. Several are several steps.            *)
Migrate(r) ==
  /\ Goes(r, {"suspended"}, "suspended")
  /\ gpu[r] > 0 /\ freeHost > 0
  /\ gpu' = [gpu EXCEPT ![r] = @ - 1] /\ freeGpu' = freeGpu + 1
  /\ host' = [host EXCEPT ![r] = @ + 1] /\ freeHost' = freeHost - 1
  /\ UNCHANGED <<tokens, left, computed>>

(* All its pages are back on the GPU, or none; its host pages are free.      *)
Resume(r) ==
  /\ Goes(r, {"suspended"}, "active")
  /\ TakeGpu(r, host[r])
  /\ host' = [host EXCEPT ![r] = 0] /\ freeHost' = freeHost + host[r]
  /\ UNCHANGED <<tokens, left, computed>>

(* It gives every page back and will replay all its tokens from position 0.  *)
RecomputePause(r) ==
  /\ Goes(r, {"active", "suspended"}, "recompute-paused")
  /\ left[r] > 0
  /\ ReleasePages(r)
  /\ computed' = [computed EXCEPT ![r] = 0]
  /\ UNCHANGED <<tokens, left>>

(* It has generated its last token.                                          *)
Finish(r) ==
  /\ Goes(r, {"active"}, "finished")
  /\ left[r] = 0
  /\ ReleasePages(r) /\ ForgetTokens(r)

(* Its client is gone. Allowed at any time.                                  *)
Cancel(r) ==
  /\ Goes(r, {"waiting", "active", "suspended", "recompute-paused"}, "finished")
  /\ ReleasePages(r) /\ ForgetTokens(r)

Next == \E r \in Requests :
  \/ \E prompt \in Prompts, output \in Outputs :
        Arrive(r, prompt, output) \/ Refuse(r, prompt, output)
  \/ \E n \in Chunks : Admit(r, n) \/ Grow(r, n) \/ Schedule(r, n)
  \/ Suspend(r) \/ Migrate(r) \/ Resume(r) \/ RecomputePause(r)
  \/ Finish(r) \/ Cancel(r)

Lifecycle == Init /\ [][Next]_vars

-------------------------------------------------------------------------------

(*****************************************************************************)
(* What a scheduler owes, for each request:                                  *)
(* - Service: pages that it could take again and again it takes at last;     *)
(*   once it has the pages, its tokens are computed; once it has generated   *)
(*   the last one, it finishes.                                              *)
(* - Room: the GPU pages it lacks for its next step are free again and       *)
(*   again, however that is brought about: somebody finishes, held pages     *)
(*   move to the host, somebody is given up, nobody else takes them first.   *)
(* - Patience: it is not suspended or recompute-paused for ever without      *)
(*   finishing.                                                              *)
(* Clients owe nothing: nobody need arrive, and anybody may cancel.          *)
(*                                                                           *)
(* The three can be kept from any state: give up all but one request until   *)
(* it finishes, then let the next one be that one, in turn.                  *)
(*****************************************************************************)
Takes(r) == (\E n \in Chunks : Admit(r, n) \/ Grow(r, n)) \/ Resume(r)
Computes(r) == \E n \in Chunks : Schedule(r, n)

Lacking(r) ==   \* GPU pages that request r must get before its next step
  CASE phase[r] \in {"waiting", "recompute-paused"} -> 1
    [] phase[r] = "suspended" -> host[r]
    [] phase[r] = "active" /\ Pages(computed[r] + 1) > gpu[r] /\ left[r] > 0 -> 1
    [] OTHER -> 0

Computing(r) == WF_vars(Computes(r)) /\ WF_vars(Finish(r))
Service == \A r \in Requests : SF_vars(Takes(r)) /\ Computing(r)
Room == \A r \in Requests : []<>(Lacking(r) <= freeGpu)
Patience == \A r \in Requests :
  []<><<Suspend(r) \/ RecomputePause(r)>>_vars => []<>(phase[r] = "finished")

(* A scheduler that respects the lifecycle and pays what it owes.            *)
Spec == Lifecycle /\ Service /\ Room /\ Patience

-------------------------------------------------------------------------------

RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET r == CHOOSE r \in S : TRUE IN f[r] + Sum(f, S \ {r})

PagesConserved ==   \** every page of each tier is free or one request's
  Sum(gpu, Requests) + freeGpu = GpuPages /\ Sum(host, Requests) + freeHost = HostPages

VacantIsEmpty ==   \** a finished request leaves nothing behind
  \A r \in Requests : phase[r] \in Vacant =>
    tokens[r] = 0 /\ left[r] = 0 /\ computed[r] = 0 /\ gpu[r] = 0 /\ host[r] = 0

WaitingHoldsNothing ==   \** and so has to compute all its tokens, from position 0
  \A r \in Requests : phase[r] \in {"waiting", "recompute-paused"} =>
    gpu[r] = 0 /\ host[r] = 0 /\ computed[r] = 0

ActiveOnGpu == \A r \in Requests : phase[r] = "active" => host[r] = 0

PagesOfItsTokens ==   \** of those computed, and of at most one chunk it was given room for
  \A r \in Requests : phase[r] \in {"active", "suspended"} =>
    /\ Pages(computed[r]) <= gpu[r] + host[r]
    /\ gpu[r] + host[r] <= Pages(computed[r] + ChunkTokens)
    /\ gpu[r] + host[r] <= Pages(tokens[r])
    /\ computed[r] < tokens[r]

SuspendedNeedsLowerTier == HostPages = 0 => \A r \in Requests : phase[r] # "suspended"

LiveIsFeasible ==
  \A r \in Requests : phase[r] \in Live => Feasible(tokens[r], left[r])

FinishedWorkIsKept ==   \** who has generated its last token is not given up
  \A r \in Requests : phase[r] \in Live /\ left[r] = 0 => phase[r] = "active"

TokensPreserved ==   \** no generated token is lost, whatever happens to a live request
  [][\A r \in Requests : phase[r] \in Live /\ phase'[r] \in Live =>
       tokens'[r] >= tokens[r] /\ tokens'[r] + left'[r] = tokens[r] + left[r]]_vars

ReplayFromZero ==   \** computed tokens are lost all together, and their pages with them
  [][\A r \in Requests : computed'[r] < computed[r] =>
       computed'[r] = 0 /\ gpu'[r] = 0 /\ host'[r] = 0]_vars

HeldPagesKept ==   \** a suspended request's pages are moved, never dropped
  [][\A r \in Requests : phase[r] = "suspended" /\ phase'[r] \in {"suspended", "active"} =>
       gpu'[r] + host'[r] = gpu[r] + host[r]]_vars

-------------------------------------------------------------------------------

NobodyStaysWithout ==   \** who waits for pages gets them
  \A r \in Requests : \A p \in {"waiting", "suspended", "recompute-paused"} :
    phase[r] = p ~> phase[r] # p

EveryRequestFinishes ==
  \A r \in Requests : phase[r] \in Live ~> phase[r] = "finished"

-------------------------------------------------------------------------------

THEOREM Lifecycle => [](TypeInvariant /\ PagesConserved /\ VacantIsEmpty)
THEOREM Lifecycle => [](WaitingHoldsNothing /\ ActiveOnGpu /\ PagesOfItsTokens)
THEOREM Lifecycle => [](SuspendedNeedsLowerTier /\ LiveIsFeasible /\ FinishedWorkIsKept)
THEOREM Lifecycle => TokensPreserved /\ ReplayFromZero /\ HeldPagesKept
THEOREM Lifecycle /\ Service /\ Room => NobodyStaysWithout
THEOREM Spec => EveryRequestFinishes
===============================================================================
