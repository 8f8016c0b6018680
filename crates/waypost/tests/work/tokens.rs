//! Tokens: what makes one invalid, and how its secret is kept.

use std::os::unix::fs::PermissionsExt as _;

use waypost::Kind;
use waypost::serving::{Role, TokenRequest, Tokens};

use crate::harness::Office;

fn agent(ttl_ms: Option<u64>) -> TokenRequest {
    TokenRequest { role: Role::Agent, agent: Some("a".to_owned()), task: None, ttl_ms }
}

#[test]
fn tokens_are_invalid_once_revoked_rotated_or_expired() {
    let office = Office::new();
    drop(office.session("ann"));
    let place = office.place(&office.repo);
    let tokens = Tokens::of(&place).unwrap();
    let is_valid = |secret: &str| Tokens::of(&place).unwrap().lookup(secret).is_some();
    let (token, secret) = tokens.create(agent(None)).unwrap();
    assert!(is_valid(&secret));
    let (_, second) = tokens.rotate(&token.id).unwrap();
    assert_eq!((is_valid(&secret), is_valid(&second)), (false, true));
    tokens.revoke(&token.id).unwrap();
    assert!(!is_valid(&second));
    assert_eq!(tokens.revoke(&token.id).unwrap_err().kind(), Kind::NotFound);
    // The clock of tests is fixed.
    assert!(!is_valid(&tokens.create(agent(Some(0))).unwrap().1));
    let (_, lasting) = tokens.create(agent(Some(3_600_000))).unwrap();
    assert!(is_valid(&lasting));
    office.pass(3_600);
    assert!(Tokens::of(&office.place(&office.repo)).unwrap().lookup(&lasting).is_none(), "an hour later");
    let own = tokens.ensure_owner_token().unwrap();
    let read = || std::fs::read_to_string(&own).unwrap().trim().to_owned();
    let first = read();
    assert!(is_valid(&first));
    assert_eq!(tokens.rotate_owner_token().unwrap(), own);
    assert_eq!((is_valid(&first), is_valid(&read())), (false, true));
    let invalid = |role, agent: Option<&str>| {
        let request = TokenRequest { role, agent: agent.map(str::to_owned), task: None, ttl_ms: None };
        assert_eq!(tokens.create(request).unwrap_err().kind(), Kind::Invalid);
    };
    invalid(Role::Agent, None);
    invalid(Role::Job, Some("a"));
    assert_eq!("king".parse::<Role>().unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn a_secret_of_256_bits_is_stored_as_a_hash_in_a_private_file() {
    let office = Office::new();
    drop(office.session("ann"));
    let tokens = Tokens::of(&office.place(&office.repo)).unwrap();
    let (_, secret) = tokens.create(agent(None)).unwrap();
    assert_eq!(secret.len(), 5 + 64, "256 bits");
    let file = office.repo.join(".git/waypost/tokens.json");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(!kept.contains(&secret) && !kept.contains(&secret[5..]), "{kept}");
    let listed = format!("{:?}", tokens.list().unwrap());
    assert!(!listed.contains(&secret[5..]), "{listed}");
    for file in [file, tokens.ensure_owner_token().unwrap()] {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}
