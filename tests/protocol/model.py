"""Explores every interleaving of the expert-call protocol in a small world: resizes, deaths, zombies, lost and late messages.

    python3 model.py            # all scenarios (a minute or two), then the broken variants, each of which must be caught
    python3 model.py --broken   # the broken variants only

The rules under test are those of docs/design.md, section 3:
  * each process writes only memory that it owns; others read it;
  * a callee answers only for an expert that it holds at the moment of computing, otherwise NACK with the newest epoch that it has seen;
    after a NACK the caller asks only replicas of views of at least that epoch (waiting for it if need be), so NACKs cannot go round in circles;
  * an answer is accepted only if its identity (caller incarnation, sequence) is the one waited for, checked after the read;
  * a step uses one view; views are adopted between steps (for simple bookkeeping: adoption in mid-step was explored too and harms nothing); a caller may ask any replica of any view from its adopted one to the newest it has seen;
  * make before break: a view is published only when the slots that it adds are filled;
  * reclaim normally waits for the grace period, but safety does not rest on it.
Checked: no wrong value is ever accepted; an expert that a published view names has a live replica or a restore under way; from every
reachable state a run exists in which every live rank finishes its steps (nothing can wedge).
"""
import sys
from collections import deque, namedtuple

# adopted, seen: epochs. steps: left to run. want: expert waited for ('' = between steps). asked: rank asked (-1 = nobody). seq: identity of the call.
# need: after a NACK, the oldest epoch whose replicas may be asked.
Rank = namedtuple("Rank", "alive member adopted seen steps want asked seq need")
# views: tuple of dict items expert -> frozenset(ranks); published: the last is the newest. slots[r]: tuple of experts held ('' = free).
# calls: frozenset of (caller, callee, seq, expert); answers: frozenset of (caller, callee, seq, value), value an expert, or (epoch,) for a NACK.
State = namedtuple("State", "ranks views slots calls answers moves deaths zombies")

RULES = {
    "nack": True,             # a callee checks what it holds when it computes (else it uses the slot that the view of the call named)
    "identity": True,         # answers are matched by sequence
    "make_before_break": True,
    "reask": True,            # on NACK or loss ask again, any replica of views adopted..seen
}


def replicas(view, expert):
    return dict(view).get(expert, frozenset())


def set_rank(state, r, **changes):
    ranks = list(state.ranks)
    ranks[r] = ranks[r]._replace(**changes)
    return state._replace(ranks=tuple(ranks))


def set_slot(state, r, index, expert):
    slots = [list(s) for s in state.slots]
    slots[r][index] = expert
    return state._replace(slots=tuple(tuple(s) for s in slots))


def successors(state, rules, experts, grace):
    newest = len(state.views) - 1
    for r, rank in enumerate(state.ranks):
        if not rank.alive:
            continue
        # A view reaches a rank (in order). A zombie that was counted out gets nothing any more.
        if rank.member and rank.seen < newest:
            yield "see", set_rank(state, r, seen=rank.seen + 1)
        # Adoption, between steps.
        if rank.adopted < rank.seen and rank.want == "":
            yield "adopt", set_rank(state, r, adopted=rank.seen)
        # A step begins: it needs one expert.
        if rank.want == "" and rank.steps:
            for expert in experts:
                yield "step", set_rank(state, r, want=expert, asked=-1, steps=rank.steps - 1)
        # Ask a replica of a view between the adopted and the newest seen.
        if rank.want and rank.asked < 0:
            epochs = range(max(rank.adopted, rank.need), rank.seen + 1) if rules["reask"] else [rank.adopted]
            for target in sorted({t for e in epochs for t in replicas(state.views[e], rank.want)}):
                if target in {t for t, _ in enumerate(state.ranks) if gone(state, rank, t)}:
                    continue
                seq = rank.seq + 1
                if seq > 9:
                    raise AssertionError(f"rank {r} asks for {rank.want} for ever")
                after = set_rank(state, r, asked=target, seq=seq)
                yield "ask", after._replace(calls=after.calls | {(r, target, seq, rank.want)})
        # The callee that was asked has left a newer view as dead: ask again (the old call may still be served, late).
        if rules["reask"] and rank.want and rank.asked >= 0 and gone(state, rank, rank.asked):
            yield "re-ask", set_rank(state, r, asked=-1)
        # An answer is read.
        for answer in state.answers:
            caller, callee, seq, value = answer
            if caller != r:
                continue
            rest = state._replace(answers=state.answers - {answer})
            if rules["identity"] and seq != rank.seq or not rank.want or rank.asked < 0:
                yield "late answer dropped", rest
            elif isinstance(value, tuple):
                yield "nack", set_rank(rest, r, asked=-1, need=max(rank.need, value[0]))
            elif value != rank.want:
                raise AssertionError(f"rank {r} wanted {rank.want} and accepted {value!r} from {callee}")
            else:
                yield "accept", set_rank(rest, r, want="", asked=-1)
    # Serving: any queued call, any order, zombies too. A call to the dead vanishes.
    for call in state.calls:
        caller, callee, seq, expert = call
        rest = state._replace(calls=state.calls - {call})
        if not state.ranks[callee].alive:
            yield "call lost", rest
            continue
        held = [e for e in state.slots[callee] if e == expert]
        if rules["nack"]:
            value = expert if held else (state.ranks[callee].seen,)
        else:
            value = expert if held else (state.slots[callee][0] or "?")
        yield "serve", rest._replace(answers=rest.answers | {(caller, callee, seq, value)})
    # The controller: move an expert to a rank with a free slot (fill, then publish), within its budget.
    if state.moves:
        view = dict(state.views[-1])
        for expert, owners in view.items():
            for target, rank in enumerate(state.ranks):
                live = [o for o in owners if state.ranks[o].alive]
                if rank.alive and rank.member and target not in owners and "" in state.slots[target] and live:
                    after = state
                    if rules["make_before_break"]:
                        after = set_slot(state, target, state.slots[target].index(""), expert)
                    view2 = tuple(sorted({**view, expert: frozenset({target})}.items()))
                    yield "move", after._replace(views=after.views + (view2,), moves=state.moves - 1)
    # Fill late (only when the rule is broken).
    if not rules["make_before_break"]:
        for expert, owners in state.views[-1]:
            for o in owners:
                if state.ranks[o].alive and expert not in state.slots[o] and "" in state.slots[o]:
                    yield "late fill", set_slot(state, o, state.slots[o].index(""), expert)
    # An owner reclaims a slot that no view in use names: in use by anybody (grace), or from its own adopted one on (no grace).
    # A slot filled for a view not published yet is not an orphan: fill and publication are one event in this model.
    waited = [k.adopted for k in state.ranks if k.alive and k.member]
    for r, slots in enumerate(state.slots):
        owner = state.ranks[r]
        oldest = min(waited, default=newest) if grace else owner.adopted
        for index, expert in enumerate(slots):
            if expert and owner.alive and owner.member and all(r not in replicas(v, expert) for v in state.views[oldest:]):
                yield "reclaim", set_slot(state, r, index, "")
    # A death, and its publication (at any later time).
    for r, rank in enumerate(state.ranks):
        if rank.alive and rank.member and state.deaths:
            yield "death", set_rank(state, r, alive=False, want="", asked=-1)._replace(deaths=state.deaths - 1)
        if rank.member and (not rank.alive or state.zombies):
            zombies = state.zombies - (1 if rank.alive else 0)
            view = {e: o - {r} for e, o in state.views[-1]}
            after = set_rank(state, r, member=False)
            yield "declare", after._replace(views=after.views + (tuple(sorted(view.items())),), zombies=zombies)
    # Restore an expert without replica from the backup: fill, then publish.
    view = dict(state.views[-1])
    for expert, owners in view.items():
        if not owners:
            for target, rank in enumerate(state.ranks):
                if rank.alive and rank.member:
                    if expert in state.slots[target]:
                        after = state
                    elif "" in state.slots[target]:
                        after = set_slot(state, target, state.slots[target].index(""), expert)
                    else:
                        continue
                    yield "restore", after._replace(views=after.views + (tuple(sorted({**view, expert: frozenset({target})}.items())),))


def gone(state, rank, target):
    """As far as this rank can know: a view that it has seen was published after the target had been declared dead."""
    return not state.ranks[target].member and all(target not in o for _, o in state.views[rank.seen])


def finished(state):
    return all(not k.alive or not k.member or (k.want == "" and k.steps == 0) for k in state.ranks)


def explore(start, rules, experts, grace):
    seen, queue, back = {start}, deque([start]), {}
    while queue:
        state = queue.popleft()
        for _, after in successors(state, rules, experts, grace):
            back.setdefault(after, []).append(state)
            if after not in seen:
                seen.add(after)
                queue.append(after)
    good = deque(s for s in seen if finished(s))
    can = set(good)
    while good:
        for before in back.get(good.popleft(), ()):
            if before not in can:
                can.add(before)
                good.append(before)
    stuck = [s for s in seen if s not in can and any(k.alive and k.member for k in s.ranks)]
    return len(seen), stuck


def world(slots, view, steps, moves=0, deaths=0, zombies=0):
    ranks = tuple(Rank(True, True, 0, 0, n, "", -1, 0, 0) for n in steps)
    return State(ranks, (tuple(sorted((e, frozenset(o)) for e, o in view.items())),), slots, frozenset(), frozenset(), moves, deaths, zombies)


SCENARIOS = {
    "two experts, two callers": world((("A", ""), ("B", ""), ("", "")), {"A": {0}, "B": {1}}, (1, 0, 1), moves=1),
    "two moves, one caller": world((("A", ""), ("B", ""), ("", "")), {"A": {0}, "B": {1}}, (0, 0, 1), moves=2),
    "move away and back, slot reused": world((("A",), ("",)), {"A": {0}}, (2, 0), moves=2),
    "a death, replicas": world((("A", ""), ("A", ""), ("", "")), {"A": {0, 1}}, (0, 1, 2), deaths=1),
    "a death in a resize": world((("A", ""), ("A", ""), ("", "")), {"A": {0, 1}}, (0, 0, 1), moves=1, deaths=1),
    "last replica lost, restored": world((("A",), ("",), ("",)), {"A": {0}}, (0, 1, 1), deaths=1),
    "a zombie": world((("A", ""), ("A", ""), ("", "")), {"A": {0, 1}}, (0, 0, 1), moves=1, zombies=1),
    "a zombie answers late": world((("A",), ("A", "B"), ("",)), {"A": {0, 1}, "B": {1}}, (0, 0, 2), zombies=1),
    "a zombie and a death": world((("A",), ("A",), ("",)), {"A": {0, 1}}, (1, 0, 1), deaths=1, zombies=1),
}


def main():
    failures = 0
    for grace in (True, False) if "--broken" not in sys.argv else ():
        for name, start in SCENARIOS.items():
            count, stuck = explore(start, RULES, [e for e, _ in start.views[0]], grace)
            print(f"{'with grace   ' if grace else 'without grace'}  {name}: {count} states, {len(stuck)} stuck")
            failures += bool(stuck)
            if stuck:
                print("   e.g.", stuck[0])
    for rule in RULES:
        caught = None
        for grace in (False, True):
            for name, start in SCENARIOS.items():
                try:
                    _, stuck = explore(start, {**RULES, rule: False}, [e for e, _ in start.views[0]], grace)
                    if stuck and not caught:
                        caught = f"stuck in '{name}'"
                except AssertionError as error:
                    caught = caught or f"{error} in '{name}'"
                if caught:
                    break
            if caught:
                break
        print(f"without the rule '{rule}': {caught or 'NOT CAUGHT'}")
        failures += not caught
    return failures


if __name__ == "__main__":
    sys.exit(main())
