"""Our own pass and page manager together, as a scheduler for ``LifecycleMachine``."""

from __future__ import annotations

from contextlib import suppress

from stallproof.engine import Engine
from stallproof.observations import PassEnd, Pool
from stallproof.outcomes import Refusal, Stall
from stallproof.pages import PageManager
from stallproof.testing import LifecycleMachine, Look


class OwnPass(LifecycleMachine):
    """Every pass is carried out on torch pages, and every token of every scheduled request is read back."""

    policy = "resident-first"
    pool = Pool(gpu_pages=4, host_pages=1, page_tokens=1)

    def start(self):
        pages = PageManager(self.pool.gpu_pages, self.pool.host_pages, self.pool.page_tokens, device="cpu")
        sizes = (self.pool.gpu_pages, self.pool.host_pages, self.pool.page_tokens, self.chunk_tokens)
        self.engine = Engine(self.policy, *sizes, pages=pages, observer=self.observe)
        self.ids, self.numbers = {}, {}
        self.last = None

    def observe(self, seen):
        if isinstance(seen, PassEnd):
            self.last = seen

    def arrive(self, request, prompt, output):
        taken = self.engine.submit(prompt, output)
        if isinstance(taken, Refusal):
            return False
        self.ids[request], self.numbers[taken] = taken, request
        return True

    def cancel(self, request):
        self.engine.cancel(self.ids[request])

    def run_pass(self):
        self.last = None
        with suppress(Stall):  # the monitor finds it too, and tells more
            self.engine.run_pass()
        assert self.engine.content_errors == []
        scheduled = {} if self.last is None else self.last.scheduled
        return {self.numbers[request]: tokens for request, tokens in scheduled.items()}

    def look(self):
        standing = [s._replace(request=self.numbers[s.request]) for s in self.engine.standing()]
        pages = self.engine.pages
        return Look(standing, pages.gpu.free, pages.host.free)
