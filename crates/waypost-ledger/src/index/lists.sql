-- Created by the first list that needs them.
CREATE INDEX issue_open_type ON issue (issue_type, priority, created_at, id) WHERE category < 3;
CREATE INDEX issue_open_created ON issue (created_at, id) WHERE category < 3;
CREATE INDEX issue_open_updated ON issue (updated_at DESC, created_at, id) WHERE category < 3;
CREATE INDEX issue_by_status ON issue (status, priority, created_at, id);
CREATE INDEX issue_by_assignee ON issue (assignee, priority, created_at, id) WHERE assignee IS NOT NULL;
CREATE INDEX issue_by_closed ON issue (closed_at DESC, created_at, id);
-- The labels of each issue. The other columns repeat those of the issue, so that a list by a label reads only what it lists.
CREATE TABLE label (
    label            TEXT NOT NULL,
    issue_id         TEXT NOT NULL,
    issue_is_open    INTEGER NOT NULL,
    issue_priority   INTEGER NOT NULL,
    issue_created_at INTEGER,
    PRIMARY KEY (label, issue_id)
) WITHOUT ROWID;
CREATE INDEX label_open ON label (label, issue_priority, issue_created_at, issue_id) WHERE issue_is_open;
