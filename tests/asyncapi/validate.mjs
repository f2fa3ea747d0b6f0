// Reads an AsyncAPI document from stdin and prints what AsyncAPI's parser has against it, as JSON; exits 1 for errors. Warnings are
// printed too: the test says which of them are meant.
import { Parser } from "@asyncapi/parser";

let text = "";
for await (const chunk of process.stdin.setEncoding("utf8")) {
  text += chunk;
}
const { document, diagnostics } = await new Parser().parse(text);
const found = diagnostics.map(({ code, message, path, severity }) => ({ code, message, path: path.join("."), severity }));
const channels = document ? document.channels().all().map((channel) => channel.id()) : [];
console.log(JSON.stringify({ channels, found }));
process.exitCode = document ? 0 : 1;
