"""Recorded renders of the chat template, one case per behaviour of the chat format.

    python3 tools/pocket/make_template_golden.py models/pocket tests/golden/template.json

Needs jinja2.  A case is {name, messages, tools, options} and what came of it: "text", or "error": "raises".
"""
import json
import sys
from itertools import product

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

cases = []


def case(name, messages, tools=None, **options):
    cases.append(dict(name=name, messages=messages, tools=tools, options=dict(dict(add_generation_prompt=True), **options)))


def system(content): return dict(role="system", content=content)
def user(content="Hi"): return dict(role="user", content=content)
def tool(content): return dict(role="tool", content=content)
def bot(content="", **more): return dict(role="assistant", content=content, **more)
def function(name, **arguments): return dict(type="function", function=dict(name=name, arguments=arguments))
def calls(*functions, content="", **more): return bot(content, tool_calls=list(functions), **more)


def spec(name, description="d", **properties):
    return dict(type="function", function=dict(name=name, description=description, parameters=dict(
        type="object", properties={k: dict(type=t) for k, t in properties.items()}, required=list(properties))))


ADD, WEATHER = spec("add", "Add two numbers", a="number", b="number"), spec("weather", "Wetter für <eine> Stadt & Ort", city="string")
IMAGE, VIDEO = dict(type="image"), dict(type="video")
def words(text): return dict(type="text", text=text)


def flags():
    """Every pair of thinking flags over the conversation shapes whose history they change."""
    asked, told = user("What is 2 + 3?"), user("And 4 + 5?")
    work = [asked, calls(function("add", a=2, b=3), reasoning_content="Use the tool."), tool("5")]
    shapes = dict(question=[asked], history=[asked, bot("5", reasoning_content="2 + 3"), told],
                  open_tool_loop=work, closed_tool_loop=work + [bot("It is 5.", reasoning_content="Done."), told],
                  two_rounds=work + [calls(function("add", a=5, b=1), reasoning_content="Again."), tool("6")],
                  think_in_content=[asked, bot("<think>\n2 + 3\n</think>\n\n5"), told, bot("<think>\n4 + 5\n</think>\n\n9")])
    for (name, messages), thinking, preserve in product(shapes.items(), (None, False), (None, True)):
        given = {k: v for k, v in dict(enable_thinking=thinking, preserve_thinking=preserve).items() if v is not None}
        case("_".join([name, *given]) if given else name, messages, [ADD] if "tool" in name else None, **given)
    case("thinking_on_by_name", [asked], enable_thinking=True)
    case("preserve_off_by_name", shapes["history"], preserve_thinking=False)
    case("no_generation_prompt", shapes["history"] + [bot("9", reasoning_content="4 + 5")], add_generation_prompt=False)
    case("generation_prompt_after_an_answer", [asked, bot("5")])
    case("no_generation_prompt_ignores_thinking_off", [asked], add_generation_prompt=False, enable_thinking=False)


def trimming():
    for name, space in dict(newlines="\n\n", mixed=" \t\r\n ", unicode="\u00a0\u2003\u3000\u2028\x85\x1f").items():
        around = f"{space}a {space} b{space}"
        case(f"trim_{name}_user_and_system", [system(around), user(around)])
        case(f"trim_{name}_assistant_and_tool", [user(), bot(around, reasoning_content=around), tool(around)])
    case("zero_width_space_and_bom_are_not_trimmed", [system("\u200bs\ufeff"), user("\ufeffu\u200b"), bot("\u200ba\u2060")])
    case("control_characters_stay", [user("\x00a\x01\x7f\x1bb\x08")])
    case("line_ends_inside_stay", [user("a\r\nb\rc\n\n\nd\te")])
    case("only_whitespace_user", [user(" \n "), bot("\n"), user("")])


def shapes_of_content():
    case("null_content", [system(None), user(None), bot(None), tool(None)])
    case("missing_content", [dict(role="user"), dict(role="assistant"), dict(role="tool")])
    case("empty_list", [user([]), bot([]), tool([])])
    case("text_parts_join_without_separator", [user([words("a"), words(" b"), dict(text="c\n")])])
    case("outer_spaces_of_parts_trimmed_inner_kept", [user([words("  a "), words(" b  ")])])
    case("system_list", [system([words("Be "), words("kind.")]), user()])
    case("tool_result_list", [user(), calls(function("look")), tool([words("saw "), IMAGE])])
    case("assistant_list_with_think", [user(), bot([words("<think>a"), words("b</think>"), words("c")])])
    for name, part in dict(image=IMAGE, image_url=dict(type="image_url", image_url=dict(url="u")), image_key=dict(image="u"),
                           video=VIDEO, video_key=dict(video="u"), image_before_text_key=dict(type="image", text="no")).items():
        case(f"part_{name}", [user([words("Look: "), part, words(" what?")])])
    several = [user([IMAGE, VIDEO, IMAGE]), bot([IMAGE]), tool([VIDEO]), user([words("x"), IMAGE, VIDEO])]
    case("vision_ids_count_over_all_turns", several, add_vision_id=True)
    case("vision_ids_off", several, add_vision_id=False)
    case("vision_ids_single_image", [user([words("x "), IMAGE])], add_vision_id=True)


def preamble():
    case("system", [system("Be brief."), user()])
    case("empty_system_is_a_turn", [system(""), user()])
    case("blank_system_is_an_empty_turn", [system(" \n"), user()])
    case("tools", [user()], [ADD])
    case("tools_and_system", [system("Be brief."), user()], [ADD, WEATHER])
    case("tools_and_empty_system", [system(""), user()], [ADD])
    case("tools_and_blank_system", [system("\n \n"), user()], [ADD])
    case("tools_and_system_list", [system([words(" Be "), words("kind. ")]), user()], [ADD])
    case("no_tools_in_the_list", [system("s"), user()], [])
    case("tool_without_wrapper", [user()], [dict(name="bare", parameters={})])
    case("tool_json_scalars", [user()], [dict(z=1, a=[1.5, 1e20, 1e-7, -0.0, 3.0, True, None], m={}, l=[], s="q\"\\/\n\t\u0001\x7f\u2028<&>'é😀")])
    case("thinking_off_with_tools", [user()], [ADD], enable_thinking=False)


def tool_calls():
    values = dict(string="Zürich", empty_string="", multi_line="a\n\n  b\n", blank_edges="  x  ", number_in_string="3", json_in_string='{"a":1}',
                  tags="</parameter></function>", integer=3, negative=-17, big=12345678901234567890, fraction=0.1, whole=3.0, large=1e+20,
                  true=True, false=False, null=None, array=[1, "x", None], object={"k": "v", "ü": [1.5, {}]}, empties=[[], {}])
    for name, value in values.items():
        case(f"argument_{name}", [user(), calls(function("f", x=value)), tool("ok")], add_generation_prompt=name == "string")
    case("arguments_keep_their_order", [user(), calls(function("f", z=1, a="2", m=[3]))])
    case("no_arguments", [user(), calls(function("f"))])
    case("missing_arguments", [user(), calls(dict(function=dict(name="f")))])
    case("bare_call", [user(), calls(dict(name="f", arguments=dict(a=1)))])
    case("call_after_text", [user(), calls(function("f", a=1), content="Let me look.")])
    case("call_after_blank_text", [user(), calls(function("f", a=1), content=" \n ")])
    case("call_after_null", [user(), calls(function("f", a=1), content=None)])
    case("call_after_think_only", [user(), calls(function("f", a=1), content="<think>\nhm\n</think>\n\n")])
    case("three_calls", [user(), calls(*[function("f", a=i) for i in range(3)], content="Three.")])
    case("three_calls_in_history", [user(), calls(*[function("f", a=i) for i in range(3)], reasoning_content="gone"), tool("r"), user()])
    case("empty_call_list", [user(), calls(content="none")])
    case("null_call_list", [user(), bot("none", tool_calls=None)])


def tool_results():
    one = calls(function("f"), function("g"))
    case("results_share_a_turn", [user(), one, tool("1"), tool("2\n3"), tool("")])
    case("results_split_by_assistant", [user(), one, tool("1"), bot("more"), tool("2"), bot("end")])
    case("results_then_user", [user(), one, tool("1"), tool("2"), user("thanks"), bot("bye")])
    case("result_first_has_no_turn_opener", [tool("1"), user()])
    case("wrapped_user_is_no_question", [user("q"), bot("a", reasoning_content="kept"), user(" <tool_response>\nr\n</tool_response>\n")])
    case("half_wrapped_user_is_a_question", [user("q"), bot("a", reasoning_content="gone"), user("<tool_response>\nr")])
    case("wrapped_user_list_is_no_question", [user("q"), bot("a", reasoning_content="kept"), user([words("<tool_response>"), words("</tool_response>")])])


def reasoning():
    for name, fields in dict(
            field=dict(reasoning_content="r"), field_empty=dict(reasoning_content=""), field_blank=dict(reasoning_content=" \n"),
            field_null=dict(reasoning_content=None), field_is_no_string=dict(reasoning_content=["r"]),
            field_wins_and_content_is_not_split=dict(content="<think>x</think>y", reasoning_content=""),
            field_holds_tags=dict(reasoning_content="a</think>b<think>c"), no_opening_tag=dict(content="r\n</think>\n\na"),
            no_closing_tag=dict(content="<think>r"), text_before_is_lost=dict(content="lost <think>r</think>a"),
            two_blocks=dict(content="<think>r</think>lost<think>s</think>a"), nested=dict(content="<think>a<think>b</think>c</think>d"),
            inner_lines=dict(content="<think>\n\n r\n\ns \n\n</think>\n\n\n  a"), only_block=dict(content="<think>r</think>"),
            empty_block=dict(content="<think>\n\n</think>\n\na")).items():
        case(f"reasoning_{name}", [user(), bot(**dict(dict(content="a"), **fields))])
    case("think_in_user_stays", [system("<think>s</think>"), user("<think>u</think>v"), bot("a"), tool("<think>t</think>")])
    case("split_in_history_drops_block", [user(), bot("r</think>\n a"), user()])
    case("control_tokens_in_text_stay", [user("<|im_end|>\n<|im_start|>system\nx<tool_call>")])


def errors():
    for name, messages in dict(
            no_messages=[], no_user=[system("s")], no_user_but_assistant=[bot("a"), tool("t")],
            only_wrapped_user=[user("<tool_response>r</tool_response>")], second_system=[system("s"), system("s"), user()],
            late_system=[user(), system("s")], developer=[dict(role="developer", content="d"), user()], unknown_role=[user(), dict(role="function", content="x")],
            missing_role=[user(), dict(content="x")], image_in_system=[system([IMAGE]), user()], video_in_system=[system([VIDEO]), user()],
            audio_part=[user([dict(type="audio")])], empty_part=[user([{}])], number_as_content=[user(3)], object_as_content=[user(words("x"))],
            arguments_string=[user(), calls(dict(name="f", arguments='{"a": 1}'))], arguments_null=[user(), calls(dict(name="f", arguments=None))],
            arguments_list=[user(), calls(dict(name="f", arguments=[1]))], call_without_name=[user(), calls(dict(arguments={}))]).items():
        case(f"error_{name}", messages)


def renderer(folder):
    """The template as transformers sets it up."""
    def refuse(message): raise TemplateError(message)
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    env.globals["raise_exception"] = refuse
    return env.from_string(open(folder + "/chat_template.jinja", encoding="utf-8").read()).render


def main(folder, out):
    for group in (flags, trimming, shapes_of_content, preamble, tool_calls, tool_results, reasoning, errors):
        group()
    assert len({c["name"] for c in cases}) == len(cases)
    render = renderer(folder)
    for c in cases:
        try:
            c["text"] = render(messages=c["messages"], tools=c["tools"], **c["options"])
        except (TemplateError, TypeError):
            c["error"] = "raises"
        assert ("error" in c) == c["name"].startswith("error_"), c
    with open(out, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main(*sys.argv[1:])
