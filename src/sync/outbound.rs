//! Sandbox → host: one guarded command makes a scratch file, which is downloaded next to its target, checked as it comes,
//! and promoted once it is whole.

use std::path::PathBuf;

use tokio::{io::AsyncWriteExt, task::spawn_blocking};

use super::{
    batch::{Kind, Mapping},
    exclude::Exclude,
    host::{self, Staging},
    pipe::{Closed, Inlet, pipe},
    promote::{existing_directory, promote_directory, promote_file},
    remote::{RemotePath, Scratch},
    transfer::{Moved, Transfer, blocking, cut, joined},
    unpack::unpack,
};
use crate::error::{Error, Fault, HostFault};

impl Transfer<'_> {
    /// A file or a directory of the sandbox comes to the host.
    pub async fn outbound(&mut self, mapping: Mapping, scratch: &Scratch) -> Result<Moved, Error> {
        let Mapping { host, remote, mode, kind } = mapping;
        match kind {
            Kind::File => self.outbound_file(host, &remote, mode, scratch).await,
            Kind::Directory { exclude, follow } => {
                let script = scratch.take_directory(&remote, &exclude, follow)?;
                self.outbound_directory(host, mode, exclude, script, scratch).await
            }
        }
    }

    async fn outbound_file(
        &mut self,
        target: PathBuf,
        source: &RemotePath,
        mode: Option<u32>,
        scratch: &Scratch,
    ) -> Result<Moved, Error> {
        let size = self.size_of(scratch.take_file(source)?).await?;
        let target_of = target.clone();
        let (staging, file) = blocking(move || {
            let made = Staging::beside(&target_of).and_then(|staging| {
                let file = host::make_private_file(&staging.join("file"))?;
                Ok((staging, file))
            });
            made.map_err(|error| host::failed(&error, None))
        })
        .await?;
        let bytes = self.bounded(self.download_to(scratch, tokio::fs::File::from_std(file))).await;
        blocking(move || {
            // Dropped here, where it may block, whatever came of the download.
            let staging = staging;
            let bytes = bytes?;
            whole(size, bytes)?;
            promote_file(&staging.join("file"), &target, mode)?;
            Ok(Moved { files: 1, bytes })
        })
        .await
    }

    async fn download_to(&self, scratch: &Scratch, mut file: tokio::fs::File) -> Result<u64, Error> {
        let mut response = self.client.download(self.lease, &scratch.path).await?;
        let mut bytes = 0;
        let failed = |error: std::io::Error| host::failed(&error, None);
        while let Some(piece) = response.chunk().await.map_err(|_| cut())? {
            bytes += piece.len() as u64;
            file.write_all(&piece).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        Ok(bytes)
    }

    async fn outbound_directory(
        &mut self,
        target: PathBuf,
        mode: Option<u32>,
        exclude: Exclude,
        script: String,
        scratch: &Scratch,
    ) -> Result<Moved, Error> {
        let (checked, target) = blocking(move || Ok((existing_directory(&target), target))).await?;
        checked?;
        let size = self.size_of(script).await?;
        let (inlet, outlet) = pipe();
        let unpacking = spawn_blocking(move || {
            let staging = Staging::beside(&target).map_err(|error| host::failed(&error, None))?;
            let root = staging.join("root");
            let unpacked = unpack(outlet, &root, &staging.join("aside"), &exclude)?;
            Ok((staging, root, target, unpacked))
        });
        let received = self.bounded(self.download_into(scratch, inlet)).await;
        // Whichever way it ended, nothing more comes, and whoever unpacks finds out.
        let unpacked = joined(unpacking.await);
        let (bytes, (staging, root, target, unpacked)) = match (received, unpacked) {
            (Ok(bytes), Ok(unpacked)) => (bytes, unpacked),
            (received, Ok((staging, ..))) => {
                blocking(move || {
                    drop(staging);
                    Ok(())
                })
                .await?;
                return Err(received.map_or_else(|error| error, |_| cut()));
            }
            (Err(error), Err(unpacked)) if unpacked.fault == Fault::HostFile(HostFault::NobodyReads) => {
                return Err(error);
            }
            (_, Err(error)) => return Err(error),
        };
        self.skips.append(unpacked.skips);
        blocking(move || {
            let _staging = staging;
            whole(size, bytes)?;
            promote_directory(&root, &target, mode, &unpacked.closed)?;
            Ok(Moved { files: unpacked.files, bytes })
        })
        .await
    }

    async fn download_into(&self, scratch: &Scratch, inlet: Inlet) -> Result<u64, Error> {
        let mut response = self.client.download(self.lease, &scratch.path).await?;
        let mut bytes = 0;
        while let Some(piece) = response.chunk().await.map_err(|_| cut())? {
            bytes += piece.len() as u64;
            if inlet.send(piece).await == Err(Closed) {
                // Whoever unpacks has found something, and will say what.
                return Ok(bytes);
            }
        }
        inlet.end().await;
        Ok(bytes)
    }

    /// Runs a script that ends by printing how large the scratch file is. Without it the transport alone says whether a
    /// download is whole.
    async fn size_of(&mut self, script: String) -> Result<Option<u64>, Error> {
        Ok(self.shell(script).await?.lines().last().and_then(|line| line.trim().parse().ok()))
    }
}

/// A clean end can be a cut as well.
fn whole(size: Option<u64>, bytes: u64) -> Result<(), Error> {
    if size.is_none_or(|size| size == bytes) {
        return Ok(());
    }
    Err(cut())
}
