# Runs one function of an artifact. Its arguments are the folder of the artifact, the module, the
# function, the file with the context, and the descriptor of the result. What it reports about a
# failure follows a zero byte in the result, which JSON never contains.
import importlib
import inspect
import json
import os
import sys
import traceback


def main():
    folder, module, function, context, result = sys.argv[1:6]

    def report(message, is_entrypoint_missing=False):
        message = message[:4000].encode("utf-8", "replace").decode("utf-8")
        found = {"message": message, "is_entrypoint_missing": is_entrypoint_missing}
        try:
            os.write(int(result), b"\0" + json.dumps(found).encode())
        except OSError:
            pass
        sys.exit(1)

    def missing(message):
        print(message, file=sys.stderr)
        report(message, True)

    def failed(error):
        # The frames of this file tell nothing.
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(type(error), error, frames)
        place = ""
        for frame in traceback.extract_tb(frames):
            if frame.filename.startswith(folder + "/"):
                file = frame.filename[len(folder) + 1 :]
                place = f" ({file}:{frame.lineno} in {frame.name})"
        kind = type(error).__qualname__
        try:
            text = str(error)
        except Exception:
            text = ""
        report((f"{kind}: {text}" if text else kind) + place)

    sys.path[:0] = [folder, os.path.join(folder, "vendor")]
    sys.argv = [folder]
    with open(context, encoding="utf-8") as file:
        given = json.load(file)
    try:
        try:
            target = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # A module that the artifact's own code imports is another matter.
            if error.name and (module + ".").startswith(error.name + "."):
                missing(f"entrypoint: the artifact has no module {error.name!r}")
            raise
        for name in function.split("."):
            if not hasattr(target, name):
                missing(f"entrypoint: module {module!r} has no function {function!r}")
            target = getattr(target, name)
        if not callable(target):
            missing(f"entrypoint: {function!r} of module {module!r} is not callable")
        try:
            wants_context = bool(inspect.signature(target).parameters)
        except (TypeError, ValueError):
            wants_context = True
        value = target(given) if wants_context else target()
        if inspect.iscoroutine(value):
            import asyncio

            value = asyncio.run(value)
        text = None if value is None else json.dumps(value)
    except Exception as error:
        failed(error)
    if text is not None:
        with os.fdopen(int(result), "w", encoding="utf-8") as file:
            file.write(text)


main()
