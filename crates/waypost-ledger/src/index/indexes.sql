-- Created after the rows when an index is built: sorting once is faster than inserting in order.
CREATE INDEX IF NOT EXISTS line_by_id ON line (id);
-- These two have all columns of a summary, so that the commonest lists read adjacent rows of one index, and not one page of the
-- table for each issue. SQLite wants those of the conditions, too.
CREATE INDEX issue_ready
    ON issue (urgency, priority, created_at, id, wakes_at, title, status, issue_type, assignee, updated_at, closed_at, due_at,
              parent_id, labels, ledger, visibility, created_by, is_ready, not_work)
    WHERE is_ready AND not_work IS NULL;
CREATE INDEX issue_open
    ON issue (priority, created_at, id, title, status, issue_type, assignee, updated_at, closed_at, due_at, parent_id, labels,
              ledger, visibility, created_by, category)
    WHERE category < 3;
CREATE INDEX issue_not_work ON issue (not_work) WHERE is_ready AND not_work IS NOT NULL;
CREATE INDEX issue_blocked ON issue (priority, created_at, id)
    WHERE category < 3 AND (waits_for > 0 OR is_held OR freed_at IS NOT NULL);
CREATE INDEX issue_by_parent ON issue (parent_id, category) WHERE parent_id IS NOT NULL;
CREATE INDEX edge_by_other ON edge (other, kind);
