"""Messages in Confluent's wire format: a zero byte, the number of a schema, and Avro or Protobuf.

The libraries are loaded when they are used: few streams have such messages.
"""

import base64
import datetime
import decimal
import functools
import io
import struct
import tempfile
import uuid
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from archiver.errors import InvalidValue, RegistryUnavailable
from archiver.ingest.schema_registry import RegisteredSchema, SchemaRegistry, open_registry

_HEADER = struct.Struct(">bI")
_MAX_INDEXES = 100  # of a message inside messages
_MAX_VARINT_BYTES = 10
_KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}
_LIBRARIES = {"avro": ("fastavro",), "protobuf": ("grpc_tools", "google.protobuf")}
_MAIN_FILE = "message.proto"


def message_parser(format_name: str, url: str) -> Callable[[bytes], dict[str, Any]]:
    """Parses messages whose schemas are in the registry at `url`.

    It raises `InvalidValue` for a message that is none, and `RegistryUnavailable`.
    """
    for library in _LIBRARIES[format_name]:
        if find_spec(library) is None:
            raise RegistryUnavailable(
                f"the libraries of format {format_name} are not installed: "
                "pip install 'moirae-monitoring[registry]'"
            )
    registry = open_registry(url)
    decode = _decode_avro if format_name == "avro" else _decode_protobuf

    def parse(message: bytes) -> dict[str, Any]:
        if len(message) < _HEADER.size or message[0] != 0:
            raise InvalidValue("not in the wire format of a schema registry: no schema number")
        _, number = _HEADER.unpack_from(message)
        schema = registry.fetch(number)
        if schema.kind != _KINDS[format_name]:
            raise InvalidValue(f"schema {number} is of type {schema.kind}, not {format_name}")
        try:
            return decode(registry, number, message[_HEADER.size :])
        except InvalidValue:
            raise
        except Exception as error:  # whatever the libraries raise for damaged bytes
            raise InvalidValue(f"not a message of schema {number}: {error!r}") from None

    return parse


def _decode_avro(registry: SchemaRegistry, number: int, payload: bytes) -> dict[str, Any]:
    from fastavro import schemaless_reader

    content = io.BytesIO(payload)
    record = schemaless_reader(content, _avro_schema(registry, number), None)
    if content.tell() != len(payload):
        raise InvalidValue(f"not a message of schema {number}: bytes after its end")
    if not isinstance(record, dict):
        raise InvalidValue(f"schema {number} is not of a record")
    return {name: _plain(value) for name, value in record.items()}


@functools.lru_cache(maxsize=1024)
def _avro_schema(registry: SchemaRegistry, number: int) -> Any:
    from fastavro import parse_schema

    schema = registry.fetch(number)
    named: dict[str, Any] = {}
    for _, text in schema.references:
        parse_schema(orjson.loads(text), named)
    return parse_schema(orjson.loads(schema.text), named)


def _plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO text, decimals as their digits, bytes as text."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _decode_protobuf(registry: SchemaRegistry, number: int, payload: bytes) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    indexes, start = _read_indexes(payload)
    message = _message_class(registry, number, indexes)()
    message.ParseFromString(payload[start:])
    fields: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return fields


def _read_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of the schema it is, from the outermost one, and where the message begins."""
    count, position = _read_varint(payload, 0)
    if count == 0:
        return (0,), position
    if not 0 < count <= _MAX_INDEXES:
        raise InvalidValue("invalid message indexes")
    indexes: list[int] = []
    for _ in range(count):
        index, position = _read_varint(payload, position)
        indexes.append(index)
    return tuple(indexes), position


def _read_varint(payload: bytes, position: int) -> tuple[int, int]:
    """A zigzag number and the position after it."""
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        byte = payload[position + shift]
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + shift + 1
    raise InvalidValue("invalid message indexes")


@functools.lru_cache(maxsize=1024)
def _message_class(registry: SchemaRegistry, number: int, indexes: tuple[int, ...]) -> Any:
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in _compile(registry.fetch(number)).file:
        pool.Add(file)
    main = pool.FindFileByName(_MAIN_FILE)
    siblings = list(main.message_types_by_name.values())
    for index in indexes:
        if not 0 <= index < len(siblings):
            raise InvalidValue(f"schema {number} has no message {indexes}")
        descriptor = siblings[index]
        siblings = list(descriptor.nested_types)
    return message_factory.GetMessageClass(descriptor)


def _compile(schema: RegisteredSchema) -> Any:
    """The descriptors of a Protobuf schema and its imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory(prefix="moirae-proto-") as folder:
        root = Path(folder)
        for name, text in (*schema.references, (_MAIN_FILE, schema.text)):
            path = (root / name).resolve()
            if not path.is_relative_to(root.resolve()):
                raise InvalidValue(f"the schema imports {name!r}, which is no name of a file")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        included = Path(protoc.__file__).parent / "_proto"
        output = root / "descriptors"
        arguments = ["protoc", f"-I{root}", f"-I{included}", "--include_imports"]
        if protoc.main([*arguments, f"--descriptor_set_out={output}", str(root / _MAIN_FILE)]):
            raise InvalidValue("the schema cannot be compiled")
        return FileDescriptorSet.FromString(output.read_bytes())
