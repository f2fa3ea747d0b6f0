"""Python's protobuf as the oracle: reads one request a line, writes one answer a line.

{"op": "print", "type": T, "hex": H}  -> {"texts": [as it is, original field names, enums as numbers]} or {"error": why}
{"op": "parse", "type": T, "text": S} -> {"hex": H} or {"error": why}
"""

import json
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

pool = descriptor_pool.DescriptorPool()
with open(sys.argv[1], "rb") as descriptors:
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors.read()).file:
        pool.Add(file)


def new(name):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()


def printed(message, **options):
    as_dict = json_format.MessageToDict(message, descriptor_pool=pool, **options)
    return json.dumps(as_dict, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def answer(request):
    message = new(request["type"])
    try:
        if request["op"] == "print":
            message.MergeFromString(bytes.fromhex(request["hex"]))
            styles = [{}, {"preserving_proto_field_name": True}, {"use_integers_for_enums": True}]
            return {"texts": [printed(message, **style) for style in styles]}
        json_format.Parse(request["text"], message, descriptor_pool=pool)
        return {"hex": message.SerializePartialToString(deterministic=True).hex()}
    except Exception as error:  # Whatever it says, it is a refusal.
        return {"error": f"{type(error).__name__}: {error}"}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))))
