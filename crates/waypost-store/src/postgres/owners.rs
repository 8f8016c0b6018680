//! The check that only trusted roles can change what the store's statements do.
//!
//! A role that owns the schema, a table or a function of it, or that may add a trigger, decides what runs with the rights
//! of every role that uses the store, and which work agents get. Such a role must be the one that this process connects
//! as, one whose rights that role has, a superuser, the owner of the database, or the one that the URL names.

use waypost_core::Error;

use super::address::Address;

/// Returns the expression for the first problem of a store: what belongs to whom, a line feed, and the role if the URL can
/// name it as trusted. NULL if there is none.
pub(super) fn problem(address: &Address) -> String {
    let named = match &address.owner {
        Some(owner) => format!("OR r.rolname = {}", literal(owner)),
        None => String::new(),
    };
    let schema = &address.schema;
    // A superuser has the rights of every role, so for it the rights say nothing about trust. Everything in a schema depends
    // on it, and on its owner, unless that is the first superuser; these two lists have an index.
    format!(
        "(WITH store AS (SELECT oid, nspowner FROM pg_catalog.pg_namespace WHERE nspname = '{schema}'),
        database AS (SELECT oid, datdba FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()),
        members AS (
            SELECT d.classid, d.objid FROM store JOIN pg_catalog.pg_depend d
                ON d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.refobjid = store.oid
        ),
        relations AS (
            SELECT c.oid, c.relname, c.relkind, c.relrowsecurity FROM members m JOIN pg_catalog.pg_class c
                ON m.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid = m.objid
        ),
        owned (rank, what, owner) AS (
            SELECT 1, 'the schema {schema}', nspowner FROM store
            UNION ALL SELECT 2, 'the ' || pg_catalog.pg_describe_object(m.classid, m.objid, 0), s.refobjid
                FROM members m CROSS JOIN database JOIN pg_catalog.pg_shdepend s
                    ON s.dbid = database.oid AND s.classid = m.classid AND s.objid = m.objid AND s.deptype = 'o'
            UNION ALL SELECT 3, 'the trigger ' || t.tgname || ' on ' || r.relname || ' runs a function that', p.proowner
                FROM relations r JOIN pg_catalog.pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal
                    JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
        ),
        problems (rank, problem) AS (
            SELECT rank, what || ' belongs to the role ' || r.rolname || E'\\n' || r.rolname
                FROM owned CROSS JOIN database JOIN pg_catalog.pg_roles r ON r.oid = owned.owner
                WHERE NOT (r.rolname = current_user OR r.rolsuper OR r.oid = database.datdba
                    OR r.rolname = 'pg_database_owner' OR (current_setting('is_superuser') = 'off'
                        AND pg_catalog.pg_has_role(r.oid, 'MEMBER')) {named})
            UNION ALL SELECT 4, 'the table ' || r.relname || ' has the rule ' || w.rulename || E'\\n'
                FROM relations r JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.oid WHERE r.relkind IN ('r', 'p')
            UNION ALL SELECT 5, 'the table ' || relname || ' has row security, which hides rows' || E'\\n'
                FROM relations WHERE relrowsecurity
        )
        SELECT problem FROM problems ORDER BY rank, problem LIMIT 1)"
    )
}

/// Returns the refusal of a store with a problem.
pub(super) fn refusal(address: &Address, problem: &str) -> Error {
    let (problem, role) = problem.split_once('\n').unwrap_or((problem, ""));
    let error = Error::refused(format!("the store {} cannot be trusted: {problem}", address.shown()));
    let error = if role.is_empty() {
        error.hint("have the owner of the schema remove it")
    } else {
        error.hint(format!("if {role} is meant to own the store, say so in the URL: owner={role}"))
    };
    error.hint("or name another schema in the URL: schema=NAME")
}

/// Returns a text as SQL.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_a_text_in_sql() {
        assert_eq!(literal("plain"), "E'plain'");
        assert_eq!(literal(r"a' OR true \'; --"), r"E'a'' OR true \\''; --'");
    }
}
