//! Every message that a caller can meet, once, and the facts that go with it. Knows nothing of HTTP, of time or of
//! JavaScript: the layers below say what happened, the binding says how it is thrown.

use std::fmt;

/// What a request was for, in the words of the messages and of `details.operation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    FileTransfer,
    StdinClose,
    OutputConnection,
    ProcessCreation,
    ProcessCleanup,
    WorkspaceCommand,
    SandboxLifecycle,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileTransfer => "file transfer",
            Self::StdinClose => "stdin close",
            Self::OutputConnection => "output connection",
            Self::ProcessCreation => "process creation",
            Self::ProcessCleanup => "process cleanup",
            Self::WorkspaceCommand => "workspace command",
            Self::SandboxLifecycle => "sandbox lifecycle",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a request got no usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host name could not be resolved.
    Dns,
    /// Nothing listens there, or the network is unreachable.
    Refused,
    /// The connection broke or ended before the answer was whole.
    Reset,
    /// The handshake failed: certificate, host name, protocol.
    Tls,
    /// Nothing came in time.
    Timeout,
    /// Something came that is not what the protocol says.
    Protocol,
}

impl Failure {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
        }
    }
}

/// Why a file of the host could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostFault {
    #[error("a file or directory does not exist")]
    NotFound,
    #[error("a file may not be read or written")]
    Forbidden,
    #[error("no space is left")]
    Full,
    #[error("a name is too long or cannot be used")]
    NameInvalid,
    #[error("the source is no regular file")]
    NotAFile,
    #[error("the source is no directory")]
    NotADirectory,
    #[error("a file or directory is in the way of another kind")]
    InTheWay,
    #[error("a file became shorter while it was read")]
    Changed,
    /// Never told: what ended the transfer is.
    #[error("nobody reads what is sent")]
    NobodyReads,
    #[error("a file could not be read or written")]
    Other,
}

impl From<&std::io::Error> for HostFault {
    fn from(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::Forbidden,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Self::Full,
            ErrorKind::InvalidFilename => Self::NameInvalid,
            ErrorKind::NotADirectory => Self::NotADirectory,
            ErrorKind::IsADirectory | ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => Self::InTheWay,
            ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Other,
        }
    }
}

/// How one request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Status(u16),
    Failure(Failure),
}

/// What was tried before an error was given up to. Holds no text that an endpoint sent as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub operation: Option<Operation>,
    /// Requests made, also those that `attempts` no longer lists.
    pub tries: u32,
    /// The last [`Details::KEPT`] attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// The entry of a directory or an archive that it is about.
    pub entry: Option<String>,
}

impl Details {
    /// A command may reconnect for hours; its error keeps this many attempts.
    pub const KEPT: usize = 16;

    pub fn new(operation: Operation) -> Self {
        Self { operation: Some(operation), ..Self::default() }
    }

    pub fn push(&mut self, attempt: Attempt) {
        self.tries += 1;
        if self.attempts.len() == Self::KEPT {
            self.attempts.remove(0);
        }
        self.attempts.push(attempt);
    }
}

/// Every fault, with its message. The messages are an interface: users, dashboards and retry code match on them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    // Configuration
    #[error("CreateOS requires an API URL.")]
    ApiUrlMissing,
    #[error("{0} must be a non-empty string.")]
    SettingNotText(&'static str),
    #[error("CreateOS API URL is invalid.")]
    ApiUrlInvalid,
    #[error("CreateOS API URL must be an HTTPS origin (optionally ending in /v1); HTTP is allowed on loopback only.")]
    ApiUrlUnsafe,
    #[error("CreateOS requires a shape from its shape catalog.")]
    ShapeMissing,
    #[error("timeoutMs must be an integer between 1 and 86400000.")]
    SettingTimeout,
    #[error("reuseLease must be a boolean.")]
    SettingReuseLease,
    #[error("CreateOS requires an API key in the environment config or CREATEOS_API_KEY.")]
    ApiKeyMissing,

    // A command's parameters
    #[error("A sandbox command is required.")]
    CommandMissing,
    #[error("Invalid sandbox environment variable.")]
    EnvironmentInvalid,
    #[error("Sandbox command values cannot contain NUL.")]
    NulInCommand,
    #[error("Sandbox command values must be shorter than 128 KiB.")]
    ValueTooLarge,
    #[error("Invalid CreateOS command timeout.")]
    TimeoutInvalid,
    #[error("Invalid CreateOS command parameters.")]
    ParametersInvalid,

    // Requests
    #[error("CreateOS request failed (HTTP {status}) during {operation}.")]
    Api { status: u16, operation: Operation },
    #[error("CreateOS connection failed.")]
    Connection,
    #[error("CreateOS returned invalid JSON.")]
    JsonInvalid,
    #[error("CreateOS returned an unsuccessful response.")]
    ResponseUnsuccessful,
    #[error("CreateOS returned an invalid response.")]
    ResponseInvalid,
    #[error("CreateOS returned an invalid resource ID.")]
    ResourceIdInvalid,
    #[error("CreateOS returned a compressed response, which was not asked for.")]
    ResponseCompressed,

    // The output stream
    #[error("CreateOS process output connection failed.")]
    OutputConnection,
    #[error("CreateOS process stream ended without an exit status.")]
    StreamEnded,
    #[error("CreateOS process stream ended before all output could be replayed.")]
    StreamIncomplete,
    #[error("CreateOS process output was evicted before it could be read.")]
    OutputEvicted,
    #[error("CreateOS process sequence is invalid.")]
    SequenceInvalid,
    #[error("CreateOS process output has a sequence gap.")]
    SequenceGap,
    #[error("CreateOS process output is invalid.")]
    OutputInvalid,
    #[error("CreateOS process exit status is missing.")]
    ExitStatusMissing,
    #[error("CreateOS process stream reported an error.")]
    StreamError,
    #[error("CreateOS returned an unknown process event.")]
    EventUnknown,
    #[error("CreateOS returned an invalid process frame.")]
    FrameInvalid,
    #[error("CreateOS process frame is too large.")]
    FrameTooLarge,
    #[error("CreateOS returned an empty process stream.")]
    StreamEmpty,

    // How a command can end besides
    #[error("CreateOS command was cancelled.")]
    Cancelled,
    #[error("CreateOS process creation could not be confirmed; destroy the lease before reusing it.")]
    CreationUnconfirmed,
    #[error("CreateOS command cleanup failed; process termination is unconfirmed.")]
    CleanupUnconfirmed,

    // Leases
    #[error("CreateOS execution requires a lease from this environment.")]
    ExecutionForeign,
    #[error("CreateOS lease is closing or requires cleanup.")]
    LeaseClosing,
    #[error("CreateOS lease does not belong to this environment.")]
    LeaseForeign,
    #[error("CreateOS lease cleanup is already in progress.")]
    ReleaseInProgress,
    #[error("CreateOS process cleanup is unconfirmed; destroy this lease before reusing it.")]
    ReuseUnconfirmed,
    #[error("CreateOS sandbox did not reach {0}.")]
    StateNotReached(&'static str),
    #[error("CreateOS sandbox identity or state is invalid.")]
    SandboxInvalid,
    #[error("CreateOS does not yet support leases with a guaranteed expiration deadline.")]
    ExpiryUnsupported,
    #[error("CreateOS workspace preparation failed; the image must provide Bash.")]
    WorkspaceUnprepared,
    #[error("CreateOS setup failed and cleanup is unconfirmed for sandbox {0}.")]
    SetupUnconfirmed(String),
    #[error("CreateOS lease cleanup must finish before resume.")]
    ResumeUnfinished,
    #[error("CreateOS workspace requires a lease from this environment.")]
    WorkspaceForeign,
    #[error("CreateOS command probe failed.")]
    ProbeFailed,

    // File transfers
    #[error("CreateOS transfer requires a confined absolute sandbox path.")]
    RemotePathUnconfined,
    #[error("CreateOS transfer path escapes the workspace.")]
    RemotePathEscapes,
    #[error("CreateOS transfer requires an absolute host path.")]
    HostPathRelative,
    #[error("Unsupported CreateOS transfer kind.")]
    TransferKind,
    #[error("Invalid CreateOS file mode.")]
    ModeInvalid,
    #[error("Invalid CreateOS transfer timeout.")]
    TransferTimeout,
    #[error("Outbound CreateOS transfers cannot run post-upload commands.")]
    OutboundCommands,
    #[error(
        "CreateOS does not support followSymlinks for host directory uploads; stage files inside the source directory and \
         omit this option."
    )]
    FollowUnsupported,
    #[error("CreateOS transfer command failed.")]
    TransferCommand,
    #[error("CreateOS archive contains unsafe entries or exceeds the extraction limit.")]
    ArchiveUnsafe,
    #[error("CreateOS archive destination cannot be a symlink.")]
    ArchiveDestination,
    #[error("CreateOS transfer failed on the host: {0}.")]
    HostFile(HostFault),

    /// Not one of the package's errors but a `RangeError`: a URL whose pacing was fixed by an earlier client.
    #[error("pacing for this apiUrl is already set to {requests_per_minute} requests per minute in bursts of {burst}")]
    PacingFixed { requests_per_minute: u32, burst: u32 },
}

impl Fault {
    /// Nobody can say whether a process still runs in the sandbox.
    pub fn is_unconfirmed(&self) -> bool {
        matches!(self, Self::CreationUnconfirmed | Self::CleanupUnconfirmed)
    }
}

/// A fault and what was tried before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct Error {
    pub fault: Fault,
    pub details: Details,
}

impl Error {
    pub fn new(fault: Fault, details: Details) -> Self {
        Self { fault, details }
    }

    /// An error of one request.
    pub fn request(fault: Fault, operation: Operation, attempt: Attempt) -> Self {
        let mut details = Details::new(operation);
        details.push(attempt);
        Self { fault, details }
    }

    pub fn status(&self) -> Option<u16> {
        match self.fault {
            Fault::Api { status, .. } => Some(status),
            _ => None,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self { fault, details: Details::default() }
    }
}
