"""A model's chat template, a Jinja program of its maker's, shut in and with the functions it may call.

The environment is that of Hugging Face's ``apply_chat_template``, for which templates are written.
"""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypeAlias

from models.engines.protocol import Message
from models.errors import EngineError

Render: TypeAlias = Callable[[Sequence[Message]], str]


def compile_template(source: str, *, bos: str, eos: str, name: str) -> Render:
    """Return a function from a conversation to the text that the assistant goes on from.

    ``name`` is the model's, for the sentence when the template cannot be read; the function raises whatever
    the template raises.
    """
    from jinja2 import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        template = environment.from_string(source)
    except TemplateError as error:
        raise EngineError(f"The chat template in {name} cannot be read ({error}): choose another.") from error

    def render(messages: Sequence[Message]) -> str:
        turns = [{"role": message.role.value, "content": message.text} for message in messages]
        return template.render(messages=turns, add_generation_prompt=True, bos_token=bos, eos_token=eos)

    return render


def _refuse(reason: str) -> NoReturn:
    from jinja2 import TemplateError

    raise TemplateError(reason)


def _to_json(value: Any, **options: Any) -> str:
    """Not Jinja's own filter: that one escapes what HTML would misread."""
    return json.dumps(value, ensure_ascii=False, **options)
