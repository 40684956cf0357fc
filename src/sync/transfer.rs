//! A batch, step by step: each operation's files one after the other, then its commands. Whatever happens, nothing of a
//! transfer's own is left on either side, and blocking work on the host has ended before this has.

use std::{fs, io::Read, path::PathBuf, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    task::spawn_blocking,
    time::{Instant, timeout},
};

use super::{
    Skips,
    batch::{Direction, Kind, Mapping, Operation as Batched, PostUpload},
    exclude::Exclude,
    host::{self, Staging},
    pack::{Packed, pack},
    pipe::{Closed, Inlet, pipe},
    promote::{existing_directory, promote_directory, promote_file},
    remote::{RemotePath, Scratch},
    unpack::unpack,
};
use crate::{
    api::client::{Client, ResourceId, within},
    error::{Attempt, Details, Error, Failure, Fault, HostFault, Operation},
    lease::WORKSPACE,
    process::{
        execute::{Outcome, execute},
        output::{Captured, Output},
        script::Command,
        stop::{Reason, Stop},
    },
    stream::frame::Exit,
};

const TRANSFER: Operation = Operation::FileTransfer;

/// After everything else went well the removal of a scratch file is waited for no longer than this.
const REMOVAL_AFTER_SUCCESS: Duration = Duration::from_secs(5);

/// What one operation has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub files: u64,
    pub bytes: u64,
}

/// A batch that is over.
#[derive(Debug)]
pub struct Synced {
    pub outcome: Result<Vec<Moved>, Error>,
    pub skips: Skips,
    /// What the last command had printed, if it failed.
    pub output: Option<Captured>,
}

/// Moves a checked batch. `stop` ends it early.
pub async fn sync(
    client: &Client,
    lease: &ResourceId,
    batch: Vec<Batched>,
    direction: Direction,
    stop: &Stop,
) -> Synced {
    let deadline = Instant::now() + Duration::from_millis(client.config.timeout_ms.into());
    let mut transfer = Transfer { client, lease, stop, deadline, skips: Skips::default(), output: None };
    let outcome = transfer.run(batch, direction).await;
    Synced { outcome, skips: transfer.skips, output: transfer.output }
}

struct Transfer<'a> {
    client: &'a Client,
    lease: &'a ResourceId,
    stop: &'a Stop,
    deadline: Instant,
    skips: Skips,
    output: Option<Captured>,
}

impl Transfer<'_> {
    async fn run(&mut self, batch: Vec<Batched>, direction: Direction) -> Result<Vec<Moved>, Error> {
        let mut all = Vec::with_capacity(batch.len());
        for operation in batch {
            let mut moved = Moved::default();
            for mapping in operation.files {
                let Moved { files, bytes } = self.mapping(mapping, direction).await?;
                moved.files += files;
                moved.bytes += bytes;
            }
            for command in operation.commands {
                self.command(command).await?;
            }
            all.push(moved);
        }
        Ok(all)
    }

    async fn mapping(&mut self, mapping: Mapping, direction: Direction) -> Result<Moved, Error> {
        let scratch = Scratch::default();
        let moved = match direction {
            Direction::In => self.inbound(mapping, &scratch).await,
            Direction::Out => self.outbound(mapping, &scratch).await,
        };
        // A placed file was renamed, and a placed archive removed, by the command that placed it.
        if direction == Direction::Out || moved.is_err() {
            self.remove(&scratch, moved.is_ok()).await;
        }
        moved
    }

    async fn inbound(&mut self, mapping: Mapping, scratch: &Scratch) -> Result<Moved, Error> {
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
        let writing = spawn_blocking(move || write(inlet));
        let body = reqwest::Body::wrap(outlet);
        let uploaded = self.bounded(self.client.upload_stream(self.lease, &scratch.path, body)).await;
        // Whichever way it ended, the body is gone now, and whoever writes to it finds out.
        match (joined(writing.await), uploaded) {
            (Err(error), _) if error.fault != Fault::HostFile(HostFault::NobodyReads) => Err(error),
            (_, Err(error)) => Err(error),
            (Ok(packed), Ok(())) => Ok(packed),
            // It was called a success before all of it was sent.
            (Err(_), Ok(())) => Err(cut()),
        }
    }

    async fn outbound(&mut self, mapping: Mapping, scratch: &Scratch) -> Result<Moved, Error> {
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

    async fn command(&mut self, command: PostUpload) -> Result<(), Error> {
        self.shell(command.cwd.guard()?).await?;
        let deadline = command.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms.into()));
        let deadline = deadline.map_or(self.deadline, |deadline| deadline.min(self.deadline));
        self.bash(command.command, command.cwd.as_str(), deadline).await.map(drop)
    }

    async fn shell(&mut self, script: String) -> Result<String, Error> {
        self.bash(script, WORKSPACE, self.deadline).await
    }

    /// Runs a script, as a command of the lease, and gives what it printed.
    async fn bash(&mut self, script: String, cwd: &str, deadline: Instant) -> Result<String, Error> {
        let command = Command {
            command: "/bin/bash".to_owned(),
            args: vec!["-c".to_owned(), script],
            cwd: Some(cwd.to_owned()),
            ..Command::default()
        };
        let mut output = Output::new(None);
        let ended = execute(self.client, self.lease, &command, Some(deadline), self.stop, &mut output).await;
        let captured = output.into_captured();
        let error = match ended.outcome {
            Ok(Outcome::Exited(Exit { code: Some(0.0), .. })) => return Ok(captured.stdout.to_string()),
            Ok(_) => Error::new(Fault::TransferCommand, Details::new(Operation::WorkspaceCommand)),
            Err(error) => error,
        };
        self.output = ended.process.map(|_| captured);
        Err(error)
    }

    /// Ends requests when the time is up, or when the sync is stopped.
    async fn bounded<T>(&self, requests: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            biased;
            reason = self.stop.stopped() => Err(match reason {
                Reason::Cancelled => Fault::Cancelled.into(),
                Reason::Timeout => Error::request(Fault::Connection, TRANSFER, Attempt::Failure(Failure::Timeout)),
            }),
            result = within(self.deadline, TRANSFER, requests) => result,
        }
    }

    async fn remove(&self, scratch: &Scratch, succeeded: bool) {
        let removal = self.client.remove_files(self.lease, std::slice::from_ref(&scratch.path));
        let allowed = if succeeded { REMOVAL_AFTER_SUCCESS } else { self.client.options.cleanup_timeout };
        // A removal that fails, or takes too long, fails nothing.
        tokio::select! {
            _ = timeout(allowed, removal) => {}
            () = self.stop.out_of_time(Instant::now() + allowed) => {}
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

/// A clean end can be a cut as well.
fn whole(size: Option<u64>, bytes: u64) -> Result<(), Error> {
    if size.is_none_or(|size| size == bytes) {
        return Ok(());
    }
    Err(cut())
}

/// What went over the wire is not all of it.
fn cut() -> Error {
    Error::request(Fault::Connection, TRANSFER, Attempt::Failure(Failure::Reset))
}

async fn blocking<T, F>(work: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Error> + Send + 'static,
{
    joined(spawn_blocking(work).await)
}

fn joined<T>(result: Result<Result<T, Error>, tokio::task::JoinError>) -> Result<T, Error> {
    result.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The runtime is ending.
        Err(_) => Err(Fault::Cancelled.into()),
    })
}
