//! Files of a sandbox and one-shot commands in it. Knows neither what is in them nor why they are wanted.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::{
    client::{Call, CallError, Client, Payload, ResourceId},
    pacer::Priority,
};
use crate::error::{Error, Fault, Operation};

/// What JavaScript's `encodeURIComponent` escapes.
const URI_COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

const TRANSFER: Operation = Operation::FileTransfer;
const COMMAND: Operation = Operation::WorkspaceCommand;

/// What a one-shot command left: it ran to its end within the call.
#[derive(Clone, Debug, PartialEq)]
pub struct OneShot {
    pub succeeded: bool,
    pub stdout: String,
}

fn file(id: &ResourceId, path: &str) -> String {
    format!("/sandboxes/{id}/files?path={}", utf8_percent_encode(path, URI_COMPONENT))
}

impl Client {
    /// Writes a file; its directories are created.
    pub async fn upload(&self, id: &ResourceId, path: &str, content: Vec<u8>) -> Result<(), Error> {
        let call = Call::new(reqwest::Method::PUT, TRANSFER, file(id, path));
        let call = Call { payload: Payload::Bytes(content), ..call };
        self.send(call).await.map(drop).map_err(|error| error.into_error(TRANSFER))
    }

    /// Writes a file whose content is not all there yet, on a connection of its own.
    pub async fn upload_stream(&self, id: &ResourceId, path: &str, content: reqwest::Body) -> Result<(), Error> {
        let call = Call::new(reqwest::Method::PUT, TRANSFER, file(id, path)).alone();
        let call = Call { payload: Payload::Stream(content), ..call };
        self.send(call).await.map(drop).map_err(|error| error.into_error(TRANSFER))
    }

    /// Reads a file; its content comes as it is read.
    pub async fn download(&self, id: &ResourceId, path: &str) -> Result<reqwest::Response, Error> {
        self.send(Call::get(TRANSFER, file(id, path))).await.map_err(|error| error.into_error(TRANSFER))
    }

    /// Runs a command that ends soon, without a process of its own.
    pub async fn exec(&self, id: &ResourceId, cmd: &str, args: &[&str]) -> Result<OneShot, Error> {
        let call = Call::post(COMMAND, format!("/sandboxes/{id}/exec")).json(json!({"cmd": cmd, "args": args}));
        let data = self.data(call).await.map_err(|error| error.into_error(COMMAND))?;
        let invalid = || CallError::Invalid(Fault::ResponseInvalid).into_error(COMMAND);
        let result = data.get("result").and_then(Value::as_object).ok_or_else(invalid)?;
        Ok(OneShot {
            succeeded: result.get("exit_code").and_then(Value::as_f64) == Some(0.0),
            stdout: result.get("stdout").and_then(Value::as_str).unwrap_or_default().to_owned(),
        })
    }

    /// Removes files by a one-shot command, since the files API has no deletion.
    pub async fn remove_files(&self, id: &ResourceId, paths: &[String]) -> Result<Map<String, Value>, CallError> {
        let args: Vec<&str> = ["-f", "--"].into_iter().chain(paths.iter().map(String::as_str)).collect();
        let call = Call::post(COMMAND, format!("/sandboxes/{id}/exec")).json(json!({"cmd": "/bin/rm", "args": args}));
        self.data(Call { priority: Priority::Cleanup, ..call }).await
    }
}
