//! Bytes between blocking work on the host's files and the network, a few pieces of them at a time. Whoever reads can tell
//! an end from a writer that gave up.

use std::{
    io::{self, Read, Write},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use http_body::Frame;
use tokio::{runtime::Handle, sync::mpsc};
use tokio_util::sync::CancellationToken;

/// A piece, and how many of them may wait.
const PIECE: usize = 256 * 1024;
const WAITING: usize = 4;

/// The last piece is an empty one.
pub struct Inlet {
    pieces: mpsc::Sender<Bytes>,
    buffer: BytesMut,
    cut: CancellationToken,
}

pub struct Outlet {
    pieces: mpsc::Receiver<Bytes>,
    current: Bytes,
    ended: bool,
}

pub fn pipe() -> (Inlet, Outlet) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let inlet = Inlet { pieces: sender, buffer: BytesMut::new(), cut: CancellationToken::new() };
    (inlet, Outlet { pieces: receiver, current: Bytes::new(), ended: false })
}

/// Nobody reads any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Inlet {
    /// Cuts the pipe when it is cancelled, for what writes from blocking code: it need not wait for its reader to be gone.
    pub fn cut(&self) -> CancellationToken {
        self.cut.clone()
    }

    /// Sends a piece from asynchronous code.
    pub async fn send(&self, piece: Bytes) -> Result<(), Closed> {
        if piece.is_empty() {
            return Ok(());
        }
        self.pieces.send(piece).await.map_err(|_| Closed)
    }

    /// Tells that this was all.
    pub async fn end(self) {
        // Whoever does not read any more has no use for it.
        let _ = self.pieces.send(Bytes::new()).await;
    }

    /// The same from blocking code.
    pub fn end_blocking(mut self) -> io::Result<()> {
        self.flush()?;
        self.send_blocking(Bytes::new())
    }

    /// Only where the runtime lets code block.
    fn send_blocking(&self, piece: Bytes) -> io::Result<()> {
        Handle::current().block_on(async {
            tokio::select! {
                biased;
                () = self.cut.cancelled() => Err(closed()),
                sent = self.pieces.send(piece) => sent.map_err(|_| closed()),
            }
        })
    }
}

fn closed() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl Write for Inlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = self.buffer.split().freeze();
        self.send_blocking(piece)
    }
}

impl Read for Outlet {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() && !self.ended {
            self.current = self.pieces.blocking_recv().ok_or_else(closed)?;
            self.ended = self.current.is_empty();
        }
        let length = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// As the body of a request.
impl http_body::Body for Outlet {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let piece = ready!(self.pieces.poll_recv(context));
        self.ended = piece.as_ref().is_none_or(Bytes::is_empty);
        Poll::Ready(match piece {
            Some(piece) if piece.is_empty() => None,
            Some(piece) => Some(Ok(Frame::data(piece))),
            // Ending here would make a whole file of half a one.
            None => Some(Err(closed())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn an_end_can_be_told_from_a_writer_that_gave_up() {
        let runtime = runtime();
        let (mut inlet, mut outlet) = pipe();
        let writer = runtime.spawn_blocking(move || {
            for _ in 0..10 {
                inlet.write_all(&[7; PIECE]).unwrap();
            }
            inlet.write_all(b"rest").unwrap();
            inlet.end_blocking().unwrap();
        });
        let mut all = Vec::new();
        outlet.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 10 * PIECE + 4);
        assert_eq!(outlet.read(&mut [0]).unwrap(), 0);
        runtime.block_on(writer).unwrap();

        let (inlet, mut outlet) = pipe();
        drop(inlet);
        assert!(outlet.read(&mut [0]).is_err());
    }

    #[test]
    fn a_writer_learns_that_nobody_reads() {
        let runtime = runtime();
        let (mut inlet, outlet) = pipe();
        drop(outlet);
        let writer = runtime.spawn_blocking(move || inlet.write_all(&[0; PIECE]));
        assert!(runtime.block_on(writer).unwrap().is_err());
    }

    #[test]
    fn a_writer_that_waits_learns_of_a_cut_though_its_reader_is_there() {
        let runtime = runtime();
        let (mut inlet, mut outlet) = pipe();
        let cut = inlet.cut();
        let writer = runtime.spawn_blocking(move || -> io::Result<()> {
            loop {
                inlet.write_all(&[0; PIECE])?;
            }
        });
        outlet.read_exact(&mut [0]).unwrap();
        cut.cancel();
        assert!(runtime.block_on(writer).unwrap().is_err());
        drop(outlet);
    }
}
