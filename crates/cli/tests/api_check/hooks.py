"""Points what is generated at teams that exist, so that calls get further than "no such team"."""

import itertools
import json
import os
import urllib.request

import schemathesis

URL = os.environ["AION_CHECK_URL"]
TOKEN = os.environ["AION_CHECK_TOKEN"]
counter = itertools.count()
teams = {}


def post(path, body):
    request = urllib.request.Request(
        URL + path,
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def new_team():
    team = post("/api/teams", {"name": "checked"})["id"]
    post(f"/api/teams/{team}/tasks", {"subject": "checked"})
    return team


def new_conversation():
    return post("/api/conversations", {})["id"]


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Three of four calls are about something that is there; each operation has its own team, and
    operations that end teams a new one now and then."""
    if not path_parameters or next(counter) % 4 == 3:
        return path_parameters
    operation = context.operation
    changed = dict(path_parameters)
    ends = operation.method == "delete" or operation.path.endswith(("archive", "stop", "kill"))
    for name, make in (("team_id", new_team), ("conversation_id", new_conversation)):
        if name not in changed:
            continue
        key = (operation.label, name)
        if key not in teams or (ends and next(counter) % 8 == 0):
            teams[key] = make()
        changed[name] = teams[key]
    for name in ("slot_id", "task_id"):
        if name in changed:
            changed[name] = 1
    return changed
