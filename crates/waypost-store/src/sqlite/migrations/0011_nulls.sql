-- Older versions of SQLite, such as 3.40 of Debian 12, take json_valid(NULL) for 0. Their integrity check called records
-- without a process damaged, and a dump could not be restored with them.
ALTER TABLE agents ADD COLUMN checked_process TEXT CHECK (checked_process IS NULL OR json_valid(checked_process));
UPDATE agents SET checked_process = process;
ALTER TABLE agents DROP COLUMN process;
ALTER TABLE agents RENAME COLUMN checked_process TO process;

ALTER TABLE jobs ADD COLUMN checked_process TEXT CHECK (checked_process IS NULL OR json_valid(checked_process));
ALTER TABLE jobs ADD COLUMN checked_supervisor TEXT CHECK (checked_supervisor IS NULL OR json_valid(checked_supervisor));
UPDATE jobs SET checked_process = process, checked_supervisor = supervisor;
ALTER TABLE jobs DROP COLUMN process;
ALTER TABLE jobs DROP COLUMN supervisor;
ALTER TABLE jobs RENAME COLUMN checked_process TO process;
ALTER TABLE jobs RENAME COLUMN checked_supervisor TO supervisor;

ALTER TABLE workspaces ADD COLUMN checked_identity TEXT CHECK (checked_identity IS NULL OR json_valid(checked_identity));
UPDATE workspaces SET checked_identity = identity;
ALTER TABLE workspaces DROP COLUMN identity;
ALTER TABLE workspaces RENAME COLUMN checked_identity TO identity;
