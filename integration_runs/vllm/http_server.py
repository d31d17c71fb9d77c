"""The HTTP server with made-up weights under the plug-in: the same tokens as the engine by itself."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from integration_runs.vllm import whole_engine
from integration_runs.vllm.one_engine import OUTPUT, prompt
from integration_runs.vllm.standing_alone import model_folder

START_SECONDS = 180


def show() -> int:
    """Twelve requests at once, under pressure."""
    alone, _ = whole_engine.run(whole_engine.ROOMY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = model_folder()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--port", str(port)]
    command += ["--load-format", "dummy", "--skip-tokenizer-init", "--dtype", "float32", "--max-model-len", "128"]
    command += ["--enforce-eager", "--block-size", "32", "--num-gpu-blocks-override", str(whole_engine.PRESSED)]
    command += ["--no-enable-prefix-caching"]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        environment = os.environ | whole_engine.OFFLINE | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
        environment |= {"STALLPROOF": "full", "STALLPROOF_RECORD": folder}
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_for(server, port)
            with ThreadPoolExecutor(len(alone)) as at_once:
                outputs = list(at_once.map(lambda number: _complete(port, model, number), range(len(alone))))
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
        preemptions, found = whole_engine.replayed(Path(folder))
        log.seek(0)
        said = [line[line.index("stallproof:") :].rstrip() for line in log if "stallproof:" in line]
    print("\n".join(said))
    same = "the same" if outputs == alone else "OTHERS"
    print(f"HTTP: {len(outputs)} requests at once, {preemptions} preemptions, {found} violations")
    print(f"tokens as from the engine without pressure: {same}")
    return outputs != alone or not preemptions or bool(found)


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(START_SECONDS):
        if server.poll() is not None:
            raise RuntimeError("the server ended before it was ready")
        try:
            urlopen(f"http://127.0.0.1:{port}/health").close()
        except (URLError, ConnectionError):
            time.sleep(1)
        else:
            return
    raise RuntimeError(f"the server was not ready after {START_SECONDS} s")


def _complete(port: int, model: str, number: int) -> list[int]:
    asked = {
        "model": model,
        "prompt": prompt(number),
        "max_tokens": OUTPUT,
        "temperature": 1.0,
        "seed": number,
        "ignore_eos": True,
        "detokenize": False,
        "return_token_ids": True,
    }
    request = Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(asked).encode())
    request.add_header("Content-Type", "application/json")
    with urlopen(request) as answer:
        tokens: list[int] = json.load(answer)["choices"][0]["token_ids"]
    return tokens
