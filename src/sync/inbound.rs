//! Host → sandbox: what is read on the host is uploaded as it is read, to a scratch file, which one guarded command then
//! puts in its place.

use std::{fs, io::Read, path::PathBuf};

use tokio::task::spawn_blocking;

use super::{
    batch::{Kind, Mapping},
    host,
    pack::{Packed, pack},
    pipe::{Inlet, pipe},
    remote::Scratch,
    transfer::{Moved, Transfer, blocking, cut, joined},
};
use crate::error::{Error, Fault, HostFault};

impl Transfer<'_> {
    /// A file or a directory of the host goes into the sandbox.
    pub async fn inbound(&mut self, mapping: Mapping, scratch: &Scratch) -> Result<Moved, Error> {
        let Mapping { host, remote, mode, kind } = mapping;
        match kind {
            Kind::File => {
                let (file, found, size) = blocking(move || open_file(host)).await?;
                let packed = self.send(scratch, move |mut inlet| {
                    let sent = std::io::copy(&mut file.take(size), &mut inlet);
                    match sent {
                        Ok(bytes) if bytes == size => inlet.end_blocking().map(|()| bytes),
                        Ok(_) => return Err(host::fault(HostFault::Changed, None)),
                        Err(error) => Err(error),
                    }
                    .map(|bytes| Packed { files: 1, bytes, ..Packed::default() })
                    .map_err(|error| host::failed(&error, None))
                });
                let Packed { files, bytes, .. } = packed.await?;
                self.shell(scratch.place_file(&remote, mode.unwrap_or(found))?).await?;
                Ok(Moved { files, bytes })
            }
            Kind::Directory { exclude, .. } => {
                let mode = mode.unwrap_or(0o755);
                let packed = self.send(scratch, move |mut inlet| {
                    let packed = pack(&host, mode, &exclude, &mut inlet)?;
                    inlet.end_blocking().map_err(|error| host::failed(&error, None))?;
                    Ok(packed)
                });
                let Packed { files, bytes, skips } = packed.await?;
                self.skips.append(skips);
                self.shell(scratch.place_directory(&remote, mode)?).await?;
                Ok(Moved { files, bytes })
            }
        }
    }

    /// Uploads what `write` produces, as it does.
    async fn send<F>(&self, scratch: &Scratch, write: F) -> Result<Packed, Error>
    where
        F: FnOnce(Inlet) -> Result<Packed, Error> + Send + 'static,
    {
        let (inlet, outlet) = pipe();
        let cut_off = inlet.cut();
        let writing = spawn_blocking(move || write(inlet));
        let body = reqwest::Body::wrap(outlet);
        let uploaded = self.bounded(self.client.upload_stream(self.lease, &scratch.path, body)).await;
        // Whichever way it ended, nobody needs more. The connection cannot tell the writer: it keeps the body for as long as its
        // peer takes nothing and the kernel has patience.
        cut_off.cancel();
        match (joined(writing.await), uploaded) {
            (Err(error), _) if error.fault != Fault::HostFile(HostFault::NobodyReads) => Err(error),
            (_, Err(error)) => Err(error),
            (Ok(packed), Ok(())) => Ok(packed),
            // It was called a success before all of it was sent.
            (Err(_), Ok(())) => Err(cut()),
        }
    }
}

/// A file to send, its mode, and how much of it there is now.
fn open_file(path: PathBuf) -> Result<(fs::File, u32, u64), Error> {
    let failed = |error: std::io::Error| host::failed(&error, None);
    let file = host::open(&path, true).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(host::fault(HostFault::NotAFile, None));
    }
    Ok((file, host::mode(&metadata), metadata.len()))
}
