// protoc-gen-es computes the names of all types of a file anew for each reference to one of them, and searches all comments of a file for
// each field: minutes for files of a thousand types. Both depend on nothing but their arguments, so that here they are computed once.
"use strict";
const Module = require("node:module");

/** By the file's name in protoplugin: the function, and the code that stands in its place and calls it as `original`. */
const FASTER = {
  "names.js": ["allNames", `
const known = new WeakMap();
function allNames(file) {
  let names = known.get(file);
  if (names === undefined) known.set(file, names = original(file));
  return names;
}`],
  "source-code-info.js": ["findComments", `
const known = new WeakMap();
function findComments(info, path) {
  if (!info) return original(info, path);
  let byPath = known.get(info);
  if (byPath === undefined) {
    known.set(info, byPath = new Map());
    for (const location of info.location) {
      const key = location.path.join();
      if (!byPath.has(key)) byPath.set(key, { location: [location] });
    }
  }
  return original(byPath.get(path.join()) ?? { location: [] }, path);
}`],
};

const compile = Module.prototype._compile;
Module.prototype._compile = function (text, path) {
  const name = /@bufbuild\/protoplugin\/dist\/cjs\/([^/]+)$/.exec(path)?.[1];
  const [slow, faster] = FASTER[name] ?? [];
  if (slow !== undefined) {
    const parts = text.split(`function ${slow}(`);
    if (parts.length !== 2) throw new Error(`${path} has no ${slow} to replace`);
    text = `${parts.join("function original(")}${faster}\n`;
  }
  return compile.call(this, text, path);
};
