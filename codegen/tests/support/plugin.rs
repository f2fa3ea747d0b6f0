//! The plugins of protoc that decide what our text must be: how they are asked. Files stay raw bytes, so that custom options survive.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use prost::{Message, bytes::Bytes};

/// `google.protobuf.compiler.CodeGeneratorRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PluginRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) file_to_generate: Vec<String>,
    #[prost(string, tag = "2")]
    pub(crate) parameter: String,
    #[prost(bytes = "bytes", repeated, tag = "15")]
    pub(crate) proto_file: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct PluginResponse {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(message, repeated, tag = "15")]
    file: Vec<PluginFile>,
}

/// What a plugin emits.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PluginFile {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "15")]
    pub(crate) content: String,
}

/// A FileDescriptorSet whose files stay bytes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) file: Vec<Bytes>,
}

/// Of a FileDescriptorProto only the name.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileName {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// Runs a plugin on all files at once.
pub(crate) fn run(mut plugin: Command, request: &PluginRequest) -> Vec<PluginFile> {
    let mut child = plugin.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the plugin starts");
    let mut stdin = child.stdin.take().expect("piped");
    let bytes = request.encode_to_vec();
    // A plugin that fails may not read to the end; what it says is looked at below.
    let writing = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().expect("the plugin ends");
    writing.join().expect("written");
    assert!(output.status.success(), "{plugin:?} failed");
    let response = PluginResponse::decode(output.stdout.as_slice()).expect("a CodeGeneratorResponse");
    assert_eq!(response.error, "", "{plugin:?}");
    response.file
}

/// A skip on a laptop, a failure in CI.
pub(crate) fn missing(what: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "{what}");
    eprintln!("skipped: {what}");
}
