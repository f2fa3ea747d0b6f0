"""What schemathesis cannot know of a broker: which queues there are, and that a request which waits should not wait for long."""

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData

# The test makes these; most requests should be about one of them.
QUEUES = ["orders", "plain", "log", "orders.dlq"]
GROUPS = ["billing", "default"]


def pick(choices, name):
    """The same for the same name, so that a run can be repeated."""
    return choices[sum(name.encode("utf-8", "replace")) % len(choices)]


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    # Half of the names stay as they are generated; what is deleted is never what other requests are about.
    if not path_parameters or context.operation.method.upper() == "DELETE":
        return path_parameters
    named = dict(path_parameters)
    queue = named.get("queue")
    if isinstance(queue, str) and len(queue) % 2 == 0:
        named["queue"] = pick(QUEUES, queue)
    group = named.get("group")
    if isinstance(group, str) and len(group) % 2 == 0:
        named["group"] = pick(GROUPS, group)
    return named


@schemathesis.hook
def filter_failure(context, failure, case, response):
    # A page shows what it can, whatever its address says further: only the API refuses what it does not know.
    is_page = not case.path.startswith("/api/")
    return not (is_page and response.status_code == 200 and isinstance(failure, AcceptedNegativeData))


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("wait_ms"), int) and 20 < body["wait_ms"] <= 60_000:
        case.body = {**body, "wait_ms": 20}
