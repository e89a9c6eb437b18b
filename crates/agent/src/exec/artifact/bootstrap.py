# Runs one function of an artifact. Its arguments are the folder of the artifact, the module, the
# function, the file with the context, and the descriptor of the result.
import importlib
import inspect
import json
import os
import sys


def main():
    folder, module, function, context, result = sys.argv[1:6]
    sys.path[:0] = [folder, os.path.join(folder, "vendor")]
    sys.argv = [folder]
    with open(context, encoding="utf-8") as file:
        given = json.load(file)
    target = importlib.import_module(module)
    for name in function.split("."):
        target = getattr(target, name)
    try:
        wants_context = bool(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        wants_context = True
    value = target(given) if wants_context else target()
    if inspect.iscoroutine(value):
        import asyncio

        value = asyncio.run(value)
    if value is not None:
        with os.fdopen(int(result), "w", encoding="utf-8") as file:
            json.dump(value, file)


main()
