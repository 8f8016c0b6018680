//! Encrypted connections to servers with a verified certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use waypost_core::{Error, Result};

/// Returns a connector that verifies certificates against these authorities, or against the system's.
pub(super) fn connector(authorities: Option<&Path>) -> Result<MakeRustlsConnect> {
    let roots = match authorities {
        Some(file) => from_file(file)?,
        None => from_system()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("TLS is not available").because(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn from_file(file: &Path) -> Result<RootCertStore> {
    let cannot = |why: &dyn std::fmt::Display| {
        Error::invalid(format!("cannot read the certificates in {}", file.display())).because(why)
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| cannot(&error))? {
        let certificate = certificate.map_err(|error| cannot(&error))?;
        roots.add(certificate).map_err(|error| cannot(&error))?;
    }
    if roots.is_empty() { Err(cannot(&"it contains none")) } else { Ok(roots) }
}

fn from_system() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems ship old certificates that cannot be parsed; those are ignored.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "no certificates found".to_owned(), ToString::to_string);
        return Err(Error::unavailable("this system trusts no certificate authority")
            .because(why)
            .hint("install ca-certificates, or name a file of certificates with sslrootcert=FILE in the URL"));
    }
    Ok(roots)
}
