-- Created by the first list that needs them.
CREATE INDEX issue_open_type ON issue (issue_type, priority, created_at, id) WHERE category < 3;
CREATE INDEX issue_open_created ON issue (created_at, id) WHERE category < 3;
CREATE INDEX issue_open_updated ON issue (updated_at DESC, created_at, id) WHERE category < 3;
CREATE INDEX issue_by_status ON issue (status, priority, created_at, id);
CREATE INDEX issue_by_assignee ON issue (assignee, priority, created_at, id) WHERE assignee IS NOT NULL;
CREATE INDEX issue_by_closed ON issue (closed_at DESC, created_at, id);
-- The labels of each issue.
CREATE TABLE label (
    label TEXT NOT NULL,
    id    TEXT NOT NULL,
    PRIMARY KEY (label, id)
) WITHOUT ROWID;
