//! Encrypted connections to servers that prove who they are.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use waypost_core::{Error, Result};

/// Makes what the driver needs: certificates are checked against these authorities, or the system's.
pub(super) fn connector(authorities: Option<&Path>) -> Result<MakeRustlsConnect> {
    let roots = match authorities {
        Some(file) => from_file(file)?,
        None => from_system()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("there is no TLS").because(error))?
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
    if roots.is_empty() { Err(cannot(&"there is none in it")) } else { Ok(roots) }
}

fn from_system() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems carry odd old certificates; one that cannot be read vouches for nobody.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "it has none".to_owned(), ToString::to_string);
        return Err(Error::unavailable("this system trusts no certificate authority")
            .because(why)
            .hint("install ca-certificates, or name a file of certificates with sslrootcert=FILE in the URL"));
    }
    Ok(roots)
}
