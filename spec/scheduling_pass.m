-- The scheduling pass of Stallproof, rule by rule, in Murphi, for Rumur.
--
-- What our scheduler does, with the numbers of the rules in comments; both policies, a constant chooses. It is
-- written from the rules, not from the Python code, and shares nothing with it but the states: requests in arrival
-- order, a finished one leaves and the rest close up, so arrivals never end. model_checking/rumur.py sets the
-- constants, runs it, and compares states, rules fired, verdicts and trace lengths with the Python explorer.

const
  LIVE:         3;  -- requests at once
  GPU_PAGES:    4;
  HOST_PAGES:   1;  -- 0: there is no tier below the GPU
  PAGE_TOKENS:  1;
  CHUNK_TOKENS: 2;
  MAX_PROMPT:   3;
  MAX_OUTPUT:   3;
  CANCEL:       1;  -- 1: any live request may be cancelled
  LOOKAHEAD:    0;  -- drafts of a decode
  STATE_PAGES:  0;  -- pages of recurrent state that a request holds beside those of its tokens
  PRIORITIES:   1;  -- 0 is served first
  PASS_REQUESTS: 0; -- the most a pass schedules; 0: no limit
  PASS_TOKENS:  0;
  COPIES:       0;  -- 1: copies between the tiers take time, and fence their pages until they are done
  DRAFTS:       1;  -- (LOOKAHEAD + 1) to the power of LIVE
  POLICY:       0;  -- 0: resident-first, 1: helix-published
  CLAIMS:       0;  -- the claims that are errors if they are false: the sum of their numbers; 0: none, only count

  -- Claims. The last four are about runs that go on for ever; one of them at a time.
  PAGE_CONSERVATION:                1;
  PHASE_RESIDENCY:                  2;
  LEGAL_TRANSITION:                 4;
  LISTS_DISJOINT:                   8;
  VICTIM_BEHIND_REQUESTER:          16;
  VICTIM_ONCE_PER_PASS:             32;
  VICTIM_MAKES_ROOM:                64;
  ACTIVE_VICTIM_FIRST:              128;
  ONLY_WHEN_NEEDED:                 256;
  DECODE_NOT_SUSPENDED_FOR_CONTEXT: 512;
  NO_SUSPENSION_WITHOUT_LOWER_TIER: 1024;
  TOKENS_PRESERVED:                 2048;
  REPLAY_FROM_ZERO:                 4096;
  SCHEDULED_HAS_PAGES:              8192;
  INFEASIBLE_REFUSED:               16384;
  NO_PRIORITY_INVERSION:            32768;
  COPY_FENCE:                       65536;
  RESUME_COMPLETE:                  131072;
  TERMINAL_RELEASES_ONCE:           262144;
  LIMITS_KEPT:                      524288;
  VICTIM_NOT_COPYING:               1048576;
  VICTIM_UNFINISHED:                2097152;
  NO_DEAD_END:                      4194304;
  NO_LIVELOCK:                      8388608;
  OLDEST_FINISHES:                  16777216;
  HOST_FULL_HAS_A_WAY_OUT:          33554432;

  RESIDENT_FIRST:  0;
  HELIX_PUBLISHED: 1;
  NOBODY:         -1;

type
  row:    0..LIVE-1;
  someone: NOBODY..LIVE-1;
  length: 0..MAX_PROMPT+MAX_OUTPUT+LOOKAHEAD;
  number: -1000..1000;
  urgency: 0..PRIORITIES-1;
  claim_t: 0..2*HOST_FULL_HAS_A_WAY_OUT-1;
  phase_t: enum { NEW, WAITING, ACTIVE, SUSPENDED, RECOMPUTE_PAUSED };

  request: record
    phase:       phase_t;  -- NEW: an empty row
    priority:    urgency;
    decoding:    boolean;  -- its prefill is complete and has yielded a token
    tokens:      length;   -- known tokens: prompt and generated
    output_left: length;   -- tokens it may still generate; the pass never reads it
    computed:    length;   -- tokens whose keys and values are in its pages
    gpu:         0..GPU_PAGES;
    host:        0..HOST_PAGES;
    copying:     0..GPU_PAGES;  -- pages that a copy is moving: to the host if suspended, to the GPU if active
    place:       0..2*LIVE;  -- in the order of suspensions, 1 is the oldest; 0 if it holds no GPU page or is not suspended
  end;
  table: array [row] of request;
  outcome_t: enum { LACKS_PAGES, FITS, COPIES_MAKE_ROOM, LOADS };

var
  requests: table;

  abandoned_gpu:  0..GPU_PAGES;   -- pages fenced by copies of requests that have gone
  abandoned_host: 0..HOST_PAGES;

  -- The plan of the running pass; cleared when it ends.
  scheduled:  array [row] of length;   -- tokens to compute
  suspended:  array [row] of boolean;  -- by this pass
  paused:     array [row] of boolean;  -- recompute-paused by this pass
  busy:       boolean;                 -- the pass has decided something

  -- To find a run that goes on for ever: a state is remembered once, and met again.
  remembered: table;
  remembering: boolean;
  passed:      boolean;  -- a pass lies between
  spent:       boolean;  -- the claim was fulfilled on the way: this run shows nothing

function claimed(claim: claim_t): boolean;
begin
  return (CLAIMS / claim) % 2 = 1;
end;

-- ---- Words ----------------------------------------------------------------------------------------------------

function live(r: row): boolean;
begin
  return requests[r].phase != NEW;
end;

function started(r: row): boolean;
begin
  return requests[r].computed > 0;
end;

function pages_for(tokens: number): number;
begin
  if tokens = 0 then return 0; end;
  return (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS + STATE_PAGES;
end;

-- Pages that nobody has and a copy in flight reads or writes.
function fenced_gpu(): number;
var n: number;
begin
  n := abandoned_gpu;
  for r: row do if requests[r].phase = SUSPENDED then n := n + requests[r].copying; end; end;
  return n;
end;

function fenced_host(): number;
var n: number;
begin
  n := abandoned_host;
  for r: row do if requests[r].phase != SUSPENDED then n := n + requests[r].copying; end; end;
  return n;
end;

function free_gpu(): number;
var n: number;
begin
  n := GPU_PAGES - fenced_gpu();
  for r: row do n := n - requests[r].gpu; end;
  return n;
end;

function free_host(): number;
var n: number;
begin
  n := HOST_PAGES - fenced_host();
  for r: row do n := n - requests[r].host; end;
  return n;
end;

-- GPU pages that r could get without giving anybody up: free ones, fenced ones, and held ones of others that may
-- migrate.
function available(r: row): number;
var held: number;
begin
  held := 0;
  for v: row do
    if v != r & requests[v].phase = SUSPENDED then held := held + requests[v].gpu; end;
  end;
  if held > free_host() then held := free_host(); end;
  return free_gpu() + fenced_gpu() + held;
end;

-- GPU pages that r lacks to compute that many more tokens; its host pages it lacks, all of them.
function missing(r: row; tokens: length): number;
var n: number;
begin
  n := pages_for(requests[r].computed + tokens) - requests[r].gpu;
  if n < requests[r].host then return requests[r].host; end;
  return n;
end;

function requests_left(): number;
var n: number;
begin
  if PASS_REQUESTS = 0 then return LIVE; end;
  n := PASS_REQUESTS;
  for r: row do if scheduled[r] > 0 then n := n - 1; end; end;
  return n;
end;

function tokens_left(): number;
var n: number;
begin
  if PASS_TOKENS = 0 then return LIVE * (CHUNK_TOKENS + LOOKAHEAD + 1); end;
  n := PASS_TOKENS;
  for r: row do n := n - scheduled[r]; end;
  return n;
end;

-- Tokens that r wants to compute: a decode its newest and its drafts, a prefill its next chunk, as far as it goes.
function wanted(r: row): number;
var tokens: number;
begin
  if requests[r].decoding then return 1 + LOOKAHEAD; end;
  tokens := requests[r].tokens - requests[r].computed;
  if tokens > CHUNK_TOKENS then tokens := CHUNK_TOKENS; end;
  if tokens > tokens_left() then tokens := tokens_left(); end;
  return tokens;
end;

-- v may be given up for the requester: behind it, started, holding pages, not scheduled in this pass (K2), none of its
-- pages on their way (R10).
function candidate(requester: row; v: row): boolean;
begin
  return v > requester & started(v) & scheduled[v] = 0 & requests[v].copying = 0
       & (requests[v].phase = ACTIVE | requests[v].phase = SUSPENDED);
end;

-- What available(requester) becomes if v releases everything: it is tried, and taken back.
function available_without(requester: row; v: row): number;
var before: request; n: number;
begin
  before := requests[v];
  clear requests[v];
  n := available(requester);
  requests[v] := before;
  return n;
end;

function available_without_all(requester: row): number;
var before: table; n: number;
begin
  before := requests;
  for v: row do
    if candidate(requester, v) then clear requests[v]; end;
  end;
  n := available(requester);
  requests := before;
  return n;
end;

-- ---- Claims about one victim, at the moment it is chosen ---------------------------------------------------------

procedure judge_suspension(requester: row; v: row; tokens: length);
begin
  assert !claimed(VICTIM_BEHIND_REQUESTER) | v > requester "victim-behind-requester";
  assert !claimed(NO_SUSPENSION_WITHOUT_LOWER_TIER) | HOST_PAGES > 0 "no-suspension-without-lower-tier";
  assert !claimed(DECODE_NOT_SUSPENDED_FOR_CONTEXT) | !requests[v].decoding | requests[requester].decoding
    "decode-not-suspended-for-context";
  assert !claimed(VICTIM_ONCE_PER_PASS) | (!suspended[v] & !paused[v]) "victim-once-per-pass";
  assert !claimed(LISTS_DISJOINT) | scheduled[v] = 0 "lists-disjoint";
  assert !claimed(VICTIM_NOT_COPYING) | requests[v].copying = 0 "victim-not-copying";
  assert !claimed(VICTIM_UNFINISHED) | requests[v].output_left > 0 "victim-unfinished";
  assert !claimed(ONLY_WHEN_NEEDED) | (missing(requester, tokens) > available(requester)
    & missing(requester, tokens) <= available_without_all(requester)) "only-when-needed";
end;

procedure judge_recompute_pause(requester: row; v: row; tokens: length);
begin
  assert !claimed(VICTIM_BEHIND_REQUESTER) | v > requester "victim-behind-requester";
  assert !claimed(VICTIM_ONCE_PER_PASS) | !paused[v] "victim-once-per-pass";
  assert !claimed(LISTS_DISJOINT) | scheduled[v] = 0 "lists-disjoint";
  assert !claimed(VICTIM_NOT_COPYING) | requests[v].copying = 0 "victim-not-copying";
  assert !claimed(VICTIM_UNFINISHED) | requests[v].output_left > 0 "victim-unfinished";
  assert !claimed(VICTIM_MAKES_ROOM) | available_without(requester, v) > available(requester) "victim-makes-room";
  assert !claimed(ONLY_WHEN_NEEDED) | (missing(requester, tokens) > available(requester)
    & missing(requester, tokens) <= available_without_all(requester)) "only-when-needed";
  if claimed(ACTIVE_VICTIM_FIRST) & requests[v].phase = SUSPENDED then
    for other: row do
      assert !(candidate(requester, other) & requests[other].phase = ACTIVE
        & available_without(requester, other) > available(requester)) "active-victim-first";
    end;
  end;
end;

-- ---- What the lifecycle's events do -------------------------------------------------------------------------------

procedure suspend(v: row);
var newest: number;
begin
  assert !claimed(LEGAL_TRANSITION) | (requests[v].phase = ACTIVE & HOST_PAGES > 0 & requests[v].copying = 0)
    "legal-transition";
  newest := 0;
  for r: row do
    if requests[r].place > newest then newest := requests[r].place; end;
  end;
  requests[v].phase := SUSPENDED;
  requests[v].place := newest + 1;
  suspended[v] := true;
  busy := true;
end;

procedure recompute_pause(v: row);
begin
  assert !claimed(LEGAL_TRANSITION) | requests[v].phase = ACTIVE | requests[v].phase = SUSPENDED "legal-transition";
  requests[v].phase := RECOMPUTE_PAUSED;
  requests[v].computed := 0;
  requests[v].decoding := false;
  requests[v].gpu := 0;
  requests[v].host := 0;
  requests[v].place := 0;
  paused[v] := true;
  busy := true;
end;

-- A request goes: its pages are free but for those that a copy reads or writes.
procedure release(r: row);
begin
  abandoned_gpu := abandoned_gpu + requests[r].copying;
  abandoned_host := abandoned_host + requests[r].copying;
  clear requests[r];
end;

-- Frees that many GPU pages by migrating held pages of others, oldest suspension first; or moves nothing.
function make_room(r: row; pages: number): outcome_t;
var holder: someone; moved: number;
begin
  if pages > available(r) then return LACKS_PAGES; end;
  while free_gpu() + fenced_gpu() < pages do
    holder := NOBODY;
    for v: row do
      if v != r & requests[v].phase = SUSPENDED & requests[v].gpu > 0 then
        if holder = NOBODY then holder := v;
        elsif requests[v].place < requests[holder].place then holder := v;
        end;
      end;
    end;
    moved := pages - free_gpu() - fenced_gpu();
    if requests[holder].gpu < moved then moved := requests[holder].gpu; end;
    assert !claimed(LEGAL_TRANSITION) | moved <= free_host() "legal-transition";
    requests[holder].gpu := requests[holder].gpu - moved;
    requests[holder].host := requests[holder].host + moved;
    if COPIES = 1 then requests[holder].copying := requests[holder].copying + moved; end;
    busy := true;
  end;
  if free_gpu() < pages then return COPIES_MAKE_ROOM; end;
  return FITS;
end;

-- H1: resume if suspended, then take the pages of that many more tokens; each step all or nothing. R10: nobody computes
-- while its own pages are on their way.
function attempt(r: row; tokens: length): outcome_t;
var pages: number; outcome: outcome_t;
begin
  if requests[r].copying > 0 then return LOADS; end;
  if requests[r].phase = SUSPENDED then
    -- R8: resume only to run
    if POLICY = RESIDENT_FIRST & missing(r, tokens) > available(r) then return LACKS_PAGES; end;
    outcome := make_room(r, requests[r].host);
    if outcome != FITS then return outcome; end;
    requests[r].gpu := requests[r].gpu + requests[r].host;
    requests[r].phase := ACTIVE;
    requests[r].place := 0;
    if COPIES = 1 then requests[r].copying := requests[r].host; end;
    requests[r].host := 0;
    busy := true;
  end;
  pages := missing(r, tokens);
  outcome := make_room(r, pages);
  if outcome = FITS then
    if pages > 0 then
      assert !claimed(LEGAL_TRANSITION) | pages <= free_gpu() "legal-transition";
      requests[r].gpu := requests[r].gpu + pages;
      busy := true;
    end;
    requests[r].phase := ACTIVE;
  end;
  if requests[r].copying > 0 then return LOADS; end;
  if outcome = FITS then
    scheduled[r] := tokens;
    busy := true;
  end;
  return outcome;
end;

-- ---- Victims --------------------------------------------------------------------------------------------------------

function newest_candidate(requester: row; wanted: phase_t): someone;
var found: someone;
begin
  found := NOBODY;
  for v: row do
    if candidate(requester, v) & requests[v].phase = wanted then found := v; end;
  end;
  return found;
end;

-- R1, R2, R3: the newest candidate whose loss makes room, an active one before any suspended one.
function newest_helpful(requester: row): someone;
var active, other: someone;
begin
  active := NOBODY;
  other := NOBODY;
  for v: row do
    if candidate(requester, v) & available_without(requester, v) > available(requester) then
      if requests[v].phase = ACTIVE then active := v; else other := v; end;
    end;
  end;
  if active != NOBODY then return active; end;
  return other;
end;

-- H3: whom a decode recompute-pauses.
function victim_for_decode(requester: row): someone;
var active, other: someone;
begin
  if POLICY = RESIDENT_FIRST then return newest_helpful(requester); end;
  active := newest_candidate(requester, ACTIVE);
  other := newest_candidate(requester, SUSPENDED);
  if active > other then return active; end;
  return other;
end;

-- K1 to K5: whom a prefill recompute-pauses.
function victim_for_prefill(requester: row): someone;
var active, other: someone;
begin
  if POLICY = RESIDENT_FIRST then return newest_helpful(requester); end;
  active := NOBODY;
  other := NOBODY;
  for v: row do
    if requests[v].phase = ACTIVE & requests[v].decoding & requests[v].gpu > 0 then return NOBODY; end;  -- K1
    if candidate(requester, v) & !suspended[v] & !paused[v] then  -- K2
      if requests[v].phase = ACTIVE then active := v; else other := v; end;
    end;
  end;
  if active != NOBODY then return active; end;  -- K3
  if HOST_PAGES = 0 then return NOBODY; end;
  return other;  -- K4, K5
end;

-- R7: nobody is given up in vain. The published rules do not ask.
function worth_giving_up(requester: row; tokens: length): boolean;
begin
  return POLICY = HELIX_PUBLISHED | missing(requester, tokens) <= available_without_all(requester);
end;

-- ---- The pass ---------------------------------------------------------------------------------------------------------

-- H2: suspend the newest active started request behind r, again and again, until r fits. The end moves to each.
function suspend_until_fits(r: row; var last: number): outcome_t;
var v: someone; outcome: outcome_t;
begin
  while true do
    v := NOBODY;
    if HOST_PAGES > 0 then v := newest_candidate(r, ACTIVE); end;
    if v = NOBODY then return LACKS_PAGES; end;
    judge_suspension(r, v, wanted(r));
    suspend(v);
    if v < last then last := v; end;
    outcome := attempt(r, wanted(r));
    if outcome != LACKS_PAGES then return outcome; end;
  end;
  return LACKS_PAGES;
end;

-- H2 and H3.
function make_way(r: row; var last: number): outcome_t;
var v: someone; outcome: outcome_t;
begin
  if !worth_giving_up(r, wanted(r)) then return LACKS_PAGES; end;
  outcome := suspend_until_fits(r, last);
  while outcome = LACKS_PAGES do
    v := victim_for_decode(r);
    if v = NOBODY then return LACKS_PAGES; end;
    judge_recompute_pause(r, v, wanted(r));
    recompute_pause(v);
    outcome := attempt(r, wanted(r));
    if outcome = LACKS_PAGES then outcome := suspend_until_fits(r, last); end;
  end;
  return outcome;
end;

-- False if copies make room for a decode: then nobody behind it takes pages (R10).
function generation_phase(first: number; past: number): boolean;
var r: number; last: number; outcome: outcome_t;
begin
  r := first;
  last := past;
  while r < last do
    if live(r) & requests[r].decoding & !suspended[r] & !paused[r] then
      if requests_left() = 0 | tokens_left() < wanted(r) then return true; end;
      outcome := attempt(r, wanted(r));  -- H1
      if outcome = LACKS_PAGES then outcome := make_way(r, last); end;
      if outcome = COPIES_MAKE_ROOM | (outcome = LACKS_PAGES & fenced_gpu() + fenced_host() > 0) then
        return false;  -- R10
      elsif outcome = LACKS_PAGES then
        if requests[r].phase = ACTIVE & HOST_PAGES > 0 then suspend(r); end;  -- H4
        return true;  -- H5
      end;
    end;
    r := r + 1;
  end;
  return true;
end;

procedure context_phase(first: number; past: number);
var tokens: number; v: someone; r: number; outcome: outcome_t;
begin
  r := first;
  while r < past do
    if live(r) & !requests[r].decoding & !suspended[r] & !paused[r] then
      tokens := wanted(r);
      if requests_left() = 0 | tokens = 0 then return; end;
      outcome := attempt(r, tokens);
      if outcome = COPIES_MAKE_ROOM then return; end;  -- R10
      if outcome = LACKS_PAGES then
        v := NOBODY;
        if worth_giving_up(r, tokens) then v := victim_for_prefill(r); end;
        if v != NOBODY then
          judge_recompute_pause(r, v, tokens);
          recompute_pause(v);
          return;  -- K6, R5
        elsif POLICY = RESIDENT_FIRST then
          return;  -- R4
        end;
      end;
    end;
    r := r + 1;
  end;
end;

-- One priority after another; R9: the next one only if everybody so far was scheduled.
procedure schedule();
var first: number; past: number;
begin
  first := 0;
  while first < LIVE do
    past := first + 1;
    while past < LIVE & requests[past].priority <= requests[first].priority do past := past + 1; end;
    if !generation_phase(first, past) then return; end;
    context_phase(first, past);
    for r: row do
      if r < past & live(r) & scheduled[r] = 0 & requests[r].copying = 0 then return; end;  -- R9
    end;
    first := past;
  end;
end;

function right_drafts(drafts: number; r: row): number;
var rest: number;
begin
  rest := drafts;
  for v: row do if v < r then rest := rest / (LOOKAHEAD + 1); end; end;
  return rest % (LOOKAHEAD + 1);
end;

-- The scheduled tokens are computed; a request with nothing left to compute yields a token, a decode also one for
-- each draft that was right; a done one leaves.
procedure compute(drafts: number);
var yields: number;
begin
  for r: row do
    if scheduled[r] > 0 then
      assert !claimed(SCHEDULED_HAS_PAGES) | (requests[r].phase = ACTIVE
        & requests[r].gpu >= pages_for(requests[r].computed + scheduled[r])) "scheduled-has-pages";
      assert !claimed(RESUME_COMPLETE) | requests[r].copying = 0 "resume-complete";
      yields := 0;
      if requests[r].decoding then
        yields := 1 + right_drafts(drafts, r);
        if yields > requests[r].output_left then yields := requests[r].output_left; end;
        requests[r].computed := requests[r].computed + yields;
      else
        requests[r].computed := requests[r].computed + scheduled[r];
        if requests[r].computed = requests[r].tokens then
          yields := 1;
          requests[r].decoding := true;
        end;
      end;
      requests[r].tokens := requests[r].tokens + yields;
      requests[r].output_left := requests[r].output_left - yields;
      if yields > 0 & requests[r].output_left = 0 then clear requests[r]; end;
    end;
  end;
end;

-- ---- Between steps ------------------------------------------------------------------------------------------------------

-- Empty rows go to the end, a request goes behind all of its priority or a higher one that arrived before it; places
-- in the order of suspensions are numbered from 1 again.
procedure close_up();
var used: number; older: number; at: number; places: array [row] of 0..2*LIVE; one: request;
begin
  used := 0;
  for r: row do
    if live(r) then
      if used != r then
        requests[used] := requests[r];
        clear requests[r];
      end;
      at := used;
      while at > 0 & requests[at - 1].priority > requests[at].priority do
        one := requests[at];
        requests[at] := requests[at - 1];
        requests[at - 1] := one;
        at := at - 1;
      end;
      used := used + 1;
    end;
  end;
  for r: row do
    places[r] := 0;
    if requests[r].phase = SUSPENDED & requests[r].gpu > 0 then
      older := 1;
      for v: row do
        if requests[v].phase = SUSPENDED & requests[v].gpu > 0 & requests[v].place < requests[r].place then
          older := older + 1;
        end;
      end;
      places[r] := older;
    end;
  end;
  for r: row do requests[r].place := places[r]; end;
  clear scheduled;
  clear suspended;
  clear paused;
  clear busy;
end;

function same(r: row): boolean;
begin
  return requests[r].phase = remembered[r].phase & requests[r].priority = remembered[r].priority
       & requests[r].decoding = remembered[r].decoding
       & requests[r].tokens = remembered[r].tokens & requests[r].output_left = remembered[r].output_left
       & requests[r].computed = remembered[r].computed & requests[r].gpu = remembered[r].gpu
       & requests[r].host = remembered[r].host & requests[r].copying = remembered[r].copying & requests[r].place = remembered[r].place;
end;

-- A step is over. A remembered state that comes back, with a pass between and the claim unfulfilled all the way,
-- is a run that goes on for ever.
procedure look_back(unfulfilled: boolean; is_pass: boolean);
begin
  if remembering then
    if !unfulfilled then
      spent := true;
    else
      passed := passed | is_pass;
      assert !(passed & forall r: row do same(r) end) "it goes on for ever";
    end;
  end;
end;

function unfulfilled_by_environment(oldest_left: boolean): boolean;
begin
  return claimed(OLDEST_FINISHES) & !oldest_left;
end;

-- ---- The system and its environment ---------------------------------------------------------------------------------------

startstate "nobody"
begin
  clear requests;
  clear abandoned_gpu; clear abandoned_host;
  clear scheduled; clear suspended; clear paused; clear busy;
  clear remembered; clear remembering; clear passed; clear spent;
end;

-- One pass and its tokens, for any number of right drafts of each decode: a digit a row.
ruleset drafts: 0..DRAFTS-1 do
rule "pass" !spent & forall r: row do right_drafts(drafts, r) = 0 | requests[r].decoding end ==>
var anybody, full, nobody_scheduled, oldest_stays, unfulfilled: boolean; known: array [row] of number;
  fenced_on_gpu, fenced_on_host: number;
begin
  full := HOST_PAGES > 0 & free_host() = 0;
  fenced_on_gpu := fenced_gpu();
  fenced_on_host := fenced_host();
  anybody := live(0);
  for r: row do known[r] := requests[r].tokens + requests[r].output_left; end;
  schedule();
  nobody_scheduled := forall r: row do scheduled[r] = 0 end;
  assert !claimed(LIMITS_KEPT) | (requests_left() >= 0 & tokens_left() >= 0) "limits-kept";
  assert !claimed(COPY_FENCE) | (fenced_gpu() >= fenced_on_gpu & fenced_host() >= fenced_on_host) "copy-fence";
  assert !claimed(NO_PRIORITY_INVERSION) | !(exists r: row do exists other: row do live(r) & scheduled[r] = 0
    & requests[r].copying = 0
    & scheduled[other] > 0 & requests[other].priority > requests[r].priority end end) "no-priority-inversion";
  compute(drafts);
  for r: row do
    assert !claimed(TOKENS_PRESERVED) | !live(r) | requests[r].tokens + requests[r].output_left = known[r]
      "tokens-preserved";
  end;
  oldest_stays := anybody & live(0);
  unfulfilled := claimed(NO_DEAD_END) & anybody & !busy
               | claimed(NO_LIVELOCK) & anybody & busy & nobody_scheduled
               | claimed(OLDEST_FINISHES) & oldest_stays
               | claimed(HOST_FULL_HAS_A_WAY_OUT) & anybody & full & free_host() = 0 & nobody_scheduled;
  close_up();
  look_back(unfulfilled, true);
end;
end;

-- A request arrives behind all others, with the longest output that the bounds and the GPU allow: any decode may
-- stop early, so shorter outputs add nothing. One that can never fit is refused, and nothing changes.
ruleset prompt: 1..MAX_PROMPT do
  ruleset priority: urgency do
  rule "arrive" !spent & !live(LIVE - 1) & prompt + LOOKAHEAD <= (GPU_PAGES - STATE_PAGES) * PAGE_TOKENS ==>
  var output: number; r: number; overtaken: boolean;
  begin
    output := (GPU_PAGES - STATE_PAGES) * PAGE_TOKENS - LOOKAHEAD - prompt + 1;
    if output > MAX_OUTPUT then output := MAX_OUTPUT; end;
    r := LIVE - 1;
    while r > 0 & !live(r - 1) do r := r - 1; end;
    requests[r].phase := WAITING;
    requests[r].tokens := prompt;
    requests[r].output_left := output;
    requests[r].priority := priority;
    overtaken := priority < requests[0].priority;
    close_up();
    look_back(unfulfilled_by_environment(r = 0 | overtaken), false);
  end;
  end;

  rule "refuse" !spent & !live(LIVE - 1)
    & prompt + MAX_OUTPUT - 1 + LOOKAHEAD > (GPU_PAGES - STATE_PAGES) * PAGE_TOKENS ==>
  begin
    look_back(unfulfilled_by_environment(!live(0)), false);
  end;
end;

ruleset r: row do
  rule "stop early" !spent & requests[r].phase = ACTIVE & requests[r].decoding & requests[r].copying = 0 ==>
  begin
    release(r);
    close_up();
    look_back(unfulfilled_by_environment(r = 0), false);
  end;

  rule "cancel" CANCEL = 1 & !spent & live(r) ==>
  var on_gpu, on_host: number;
  begin
    on_gpu := free_gpu() + fenced_gpu() + requests[r].gpu;
    on_host := free_host() + fenced_host() + requests[r].host;
    release(r);
    assert !claimed(TERMINAL_RELEASES_ONCE) | (free_gpu() + fenced_gpu() = on_gpu & free_host() + fenced_host() = on_host)
      "terminal-releases-once";
    close_up();
    look_back(unfulfilled_by_environment(r = 0), false);
  end;

  rule "settle" !spent & requests[r].copying > 0 ==>
  begin
    clear requests[r].copying;
    look_back(false, false);
  end;
end;

rule "settle abandoned" !spent & abandoned_gpu + abandoned_host > 0 ==>
begin
  clear abandoned_gpu;
  clear abandoned_host;
  look_back(false, false);
end;

-- Where copies take time a run must be fair to be shown, and this text does not look for that: only the rest is judged.
rule "remember" CLAIMS >= NO_DEAD_END & COPIES = 0 & !remembering ==>
begin
  remembered := requests;
  remembering := true;
end;

-- ---- Claims about every state -----------------------------------------------------------------------------------------------

-- Tokens not computed yet that r may have pages for: drafts, and what it resumed for while its pages were on their way.
function room_ahead(r: row): number;
begin
  if COPIES = 1 then return wanted(r); end;
  if requests[r].decoding then return LOOKAHEAD; end;
  return 0;
end;

invariant "page-conservation"
  !claimed(PAGE_CONSERVATION) | (free_gpu() >= 0 & free_host() >= 0);

invariant "phase-residency"
  !claimed(PHASE_RESIDENCY) | forall r: row do
    (requests[r].phase = ACTIVE -> requests[r].host = 0)
    & (requests[r].phase = ACTIVE | requests[r].phase = SUSPENDED ->
       requests[r].gpu + requests[r].host >= pages_for(requests[r].computed)
       & requests[r].gpu + requests[r].host <= pages_for(requests[r].computed + room_ahead(r)))
    & (requests[r].phase = ACTIVE | requests[r].phase = SUSPENDED | requests[r].gpu + requests[r].host = 0)
  end;

invariant "replay-from-zero"
  !claimed(REPLAY_FROM_ZERO) | forall r: row do
    requests[r].phase = WAITING | requests[r].phase = RECOMPUTE_PAUSED
      -> requests[r].computed = 0 & !requests[r].decoding
  end;

invariant "infeasible-refused"
  !claimed(INFEASIBLE_REFUSED) | forall r: row do
    live(r) -> pages_for(requests[r].tokens + requests[r].output_left - 1 + LOOKAHEAD) <= GPU_PAGES
  end;
