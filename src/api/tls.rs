//! Whom TLS trusts: Mozilla's roots, always, and what the environment adds to them. Owns no connection.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::transport::Network;

/// The TLS configuration of both clients. Reading files is left to the caller's thread: it happens once a process.
pub(super) fn client_config(network: &Network) -> Result<ClientConfig, rustls::Error> {
    // Named explicitly: a process-wide default provider may have been set, or not, by another addon.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(network))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Early data could be replayed by the network; it is off by default, and has to stay off for at-most-once.
    config.enable_early_data = false;
    Ok(config)
}

fn roots(network: &Network) -> RootCertStore {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for file in [&network.extra_ca_certs, &network.ssl_cert_file].into_iter().flatten() {
        roots.add_parsable_certificates(certificates(file));
    }
    if network.system_ca {
        // Its errors concern single files of the store; what could be read is used.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    roots
}

/// As Node.js does: a file that cannot be read adds nothing, and the first block that is no certificate ends the reading.
fn certificates(file: &Path) -> Vec<CertificateDer<'static>> {
    let Ok(text) = std::fs::read(file) else { return Vec::new() };
    CertificateDer::pem_slice_iter(&text).map_while(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A file that goes with the test.
    struct File(PathBuf);

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn file(name: &str, content: &[u8]) -> File {
        let file = std::env::temp_dir().join(format!("createos-tls-{}-{name}.pem", std::process::id()));
        std::fs::write(&file, content).unwrap();
        File(file)
    }

    fn pem() -> String {
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn mozillas_roots_are_there_without_any_file() {
        assert!(roots(&Network::default()).len() > 100);
        assert!(client_config(&Network::default()).is_ok());
    }

    #[test]
    fn both_files_add_to_the_roots() {
        let built_in = roots(&Network::default()).len();
        let (one, two) = (file("one", pem().as_bytes()), file("two", format!("text\n{}{}", pem(), pem()).as_bytes()));
        let network =
            Network { extra_ca_certs: Some(one.0.clone()), ssl_cert_file: Some(two.0.clone()), ..Network::default() };
        assert_eq!(roots(&network).len(), built_in + 3);
    }

    #[test]
    fn missing_files_and_garbage_are_ignored() {
        let built_in = roots(&Network::default()).len();
        let garbage: [&[u8]; 5] = [
            b"",
            b"\xff\x00 no PEM at all",
            b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
            b"-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n",
            b"-----BEGIN CERTIFICATE-----\naGVs",
        ];
        for (number, content) in garbage.into_iter().enumerate() {
            let file = file(&format!("bad{number}"), content);
            let network = Network { extra_ca_certs: Some(file.0.clone()), ..Network::default() };
            assert_eq!(roots(&network).len(), built_in);
        }
        for path in ["/does/not/exist", "/"] {
            let network = Network { ssl_cert_file: Some(path.into()), ..Network::default() };
            assert_eq!(roots(&network).len(), built_in);
        }
    }
}
