"""Works with a server through a client that openapi-python-client generated from its description."""

import datetime
import sys

from waypost_client import AuthenticatedClient
from waypost_client.api.issues import (
    add_issue,
    claim_issue_named,
    close_issue,
    list_issues,
    show_issue,
    update_issue,
)
from waypost_client.models import (
    AddIssue,
    ClaimIssueNamedBody,
    CloseIssueBody,
    Problem,
    UpdateIssueBody,
)
from waypost_client.types import UNSET, Unset


def main() -> None:
    url, token = sys.argv[1:]
    client = AuthenticatedClient(base_url=url, token=token, headers={"Waypost-Agent": "python"})

    ids = []
    for title in ["one", "two", "three"]:
        added = add_issue.sync(client=client, body=AddIssue(title=title, priority=1))
        assert added is not None and not isinstance(added, Problem), added
        assert added.data.title == title and added.data.priority == 1, added
        ids.append(added.data.id)

    walked: list[str] = []
    after: str | Unset = UNSET
    while True:
        page = list_issues.sync(client=client, limit=2, sort="created", after=after)
        assert page is not None and not isinstance(page, Problem), page
        walked += [issue.id for issue in page.data]
        if not isinstance(page.next_, str):
            break
        after = page.next_
    assert sorted(walked) == sorted(ids), (walked, ids)

    claimed = claim_issue_named.sync(ids[0], client=client, body=ClaimIssueNamedBody())
    assert claimed is not None and not isinstance(claimed, Problem), claimed
    assert claimed.data.issue.assignee == "python" and claimed.data.lease.epoch == 1, claimed
    expires_at = claimed.data.lease.expires_at
    assert isinstance(expires_at, datetime.datetime), claimed
    assert expires_at > claimed.data.lease.granted_at, claimed
    changed = update_issue.sync(ids[0], client=client, body=UpdateIssueBody(priority=0))
    assert changed is not None and not isinstance(changed, Problem), changed
    assert changed.data.priority == 0, changed
    closed = close_issue.sync(ids[0], client=client, body=CloseIssueBody(reason="done"))
    assert closed is not None and not isinstance(closed, Problem), closed
    assert closed.data.status == "closed", closed

    failed = show_issue.sync_detailed("none", client=client)
    problem = failed.parsed
    assert isinstance(problem, Problem), failed
    assert failed.headers["content-type"] == "application/problem+json", failed
    assert (problem.status, problem.code.value, problem.exit_) == (404, "not_found", 3), problem
    assert problem.instance == "/api/v1/issues/none", problem
    print("python done")


main()
