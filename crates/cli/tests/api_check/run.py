"""Holds the real daemon to its own OpenAPI: no fault of the daemon, no status, content type or body
that is not described, and no operation without a credential.

usage: run.py AION EXAMPLES
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

SCENARIO = '[[agent."*".rule]]\notherwise = true\nsay = "Read."\n'
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "ignored_auth",
]


def without_a_credential(url, document):
    """Every operation, with no credential and with a wrong one."""
    checked = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation.get("security") == [{}]:
                continue
            filled = path.replace("{", "").replace("}", "")
            for headers in ({}, {"Authorization": "Bearer aion_" + 64 * "0"}):
                request = urllib.request.Request(url + filled, method=method.upper(), headers=headers)
                try:
                    status = urllib.request.urlopen(request).status
                except urllib.error.HTTPError as refused:
                    status = refused.code
                assert status == 401, f"{method} {path} answered {status} without a credential"
            checked += 1
    return checked


def main(aion, examples):
    home = pathlib.Path(tempfile.mkdtemp(prefix="aion-api-check-"))
    aion = str(pathlib.Path(aion).resolve())
    scenario = home / "scenario.toml"
    scenario.write_text(SCENARIO)
    plain = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    arguments = [aion, "serve", "--json", "--port", "0", "--script", scenario]
    arguments += ["--data-dir", home / "data"]
    daemon = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=plain, cwd=home, text=True)
    try:
        line = json.loads(daemon.stdout.readline())
        url, token = line["url"], pathlib.Path(line["token_file"]).read_text()
        bearer = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(url + "/api/openapi.json", headers=bearer)
        document = json.load(urllib.request.urlopen(request))
        schema = home / "openapi.json"
        schema.write_text(json.dumps(document))
        operations = without_a_credential(url, document)
        print(f"{operations} operations answer 401 without a credential", flush=True)
        here = pathlib.Path(__file__).resolve().parent
        command = [pathlib.Path(sys.executable).parent / "schemathesis", "run", schema]
        command += ["--url", url, "-H", f"Authorization: Bearer {token}"]
        command += ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"]
        command += ["--max-examples", examples, "--seed", "1", "--no-color"]
        command += ["--suppress-health-check", "all", "--generation-database", "none"]
        command += ["--continue-on-failure", "--request-timeout", "30", "--warnings", "off"]
        env = plain | {
            "SCHEMATHESIS_HOOKS": "hooks",
            "PYTHONPATH": str(here),
            "PYTHONDONTWRITEBYTECODE": "1",
            "AION_CHECK_URL": url,
            "AION_CHECK_TOKEN": token,
        }
        ended = subprocess.run(command, env=env, cwd=home).returncode
        assert daemon.poll() is None, "the daemon ended meanwhile"
        request = urllib.request.Request(url + "/metrics", headers=bearer)
        metrics = urllib.request.urlopen(request).read().decode()
        answers = dict(re.findall(r'class="(.xx)"} (\d+)', metrics))
        print("answers of the daemon:", answers, flush=True)
        # Where nothing is ever done, nothing is checked.
        assert int(answers["2xx"]) * 8 > sum(map(int, answers.values())), "few calls got anywhere"
        return ended
    finally:
        daemon.terminate()
        daemon.wait(30)
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
