//! The streams that connections come over: their two halves, and how it is noticed that a peer is gone.

use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdStream;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// A stream of bytes both ways.
pub trait Transport: Send + 'static {
    /// What is read.
    type Read: Incoming;
    /// What is written.
    type Write: AsyncWrite + Send + Unpin;

    /// Returns both halves.
    fn halves(self) -> (Self::Read, Self::Write);
}

/// The half of a stream that is read.
pub trait Incoming: AsyncRead + Send + Unpin {
    /// Waits until nobody is at the other end any more; for ever where that cannot be told.
    ///
    /// The end of what can be read does not say so: the peer may only have closed its own direction, and still read
    /// (`printf … | socat - UNIX:…`).
    fn gone(&self) -> BoxFuture<'static, ()>;
}

impl Transport for UnixStream {
    type Read = OwnedReadHalf;
    type Write = OwnedWriteHalf;

    fn halves(self) -> (Self::Read, Self::Write) {
        self.into_split()
    }
}

impl Incoming for OwnedReadHalf {
    fn gone(&self) -> BoxFuture<'static, ()> {
        let stream: &UnixStream = self.as_ref();
        // A descriptor of its own: its readiness is not that of the half that writes, which must not be disturbed.
        let again = stream.as_fd().try_clone_to_owned();
        async move {
            let again = again.and_then(|fd| UnixStream::from_std(StdStream::from(fd)));
            let ended = match again {
                Ok(stream) => hung_up(&stream).await,
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                // Its requests wait until they are done, as those of one that still reads.
                tracing::debug!(%error, "cannot watch for the end of a client");
                pending().await
            }
        }
        .boxed()
    }
}

/// Waits until the system says that both directions are closed.
async fn hung_up(stream: &UnixStream) -> io::Result<()> {
    while !stream.ready(Interest::WRITABLE).await?.is_write_closed() {
        // Forgets that it can be written, so that the next change is waited for.
        drop(stream.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into())));
    }
    Ok(())
}
