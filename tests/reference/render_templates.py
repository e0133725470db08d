#!/usr/bin/env python3
"""Writes tests/llm/chat/chat_templates.json: our own templates, which use the constructs of published ones,
rendered by Python's jinja2 with the configuration of Hugging Face's transformers. The test is
tests/llm/chat/chat_template_test.cc.

Published templates were compared outside of the repository, because their licences are not all clear: those of
Llama 2 and 3, Gemma, Mistral, Phi-3, Qwen2.5 and 3, Granite, Falcon, Vicuna, Zephyr and ChatML gave the same
texts in 1,120 conversations, and that of gpt-oss in 512.

Needs: pip install jinja2==3.1.6
"""
import datetime
import json
import pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1700000000


class Generation(Extension):
    """{% generation %}, which marks an answer and changes nothing."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    result = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)
    return result


VARIABLES = {"messages":[{"role":"system","content":"Be terse."},{"role":"user","content":"Hi \"there\" <b>é日\n x"},{"role":"assistant","content":"yes","tool_calls":[{"id":"abc","type":"function","function":{"name":"f","arguments":{"x":1,"y":[1.5,None,True]}}}]}],
 "tools":[{"type":"function","function":{"name":"get_weather","description":"Gets it's","parameters":{"type":"object","properties":{"city":{"type":"string","description":"c"},"n":{"type":"integer"}},"required":["city"]}}}],
 "n":5,"f":2.5,"s":"Hello World foo-bar","l":[3,1,2],"d":{"b":1,"a":2,"C":3},"none":None,"t":True,"empty":"","words":["b","A","c","a"],"nested":[[1,2],[3]],"people":[{"name":"Bo","age":3,"x":{"y":1}},{"name":"al","age":1,"x":{"y":2}},{"name":"Cy","age":3,"x":{"y":1}}]}
# One case per line; a case of several lines is between empty lines.
LINES = r'''
{{ n }} {{ f }} {{ s }} {{ l }} {{ d }} {{ none }} {{ t }} {{ nested }} {{ 'a"b' }} {{ ["it's", 'q"', "é", "\n"] }}
{{ 1/2 }} {{ 7//2 }} {{ -7//2 }} {{ -7%3 }} {{ 7.5//2 }} {{ 2**10 }} {{ 2**-1 }} {{ 1e20 }} {{ 1.0 }} {{ 1e-7 }} {{ 0.1+0.2 }} {{ 123456789.0*1e10 }}
{{ -7.5%2 }} {{ 7.5%-2 }} {{ 7.5%2 }} {{ -8.0%2 }} {{ 7%-3 }}
{{ [1,2,3,4,5]|slice(3, 'x')|list }} {{ [1,2,3,4]|slice(2, 'x')|list }}
{{ 'a' ~ 1 ~ none ~ 2.0 ~ [1] }} {{ 'ab'*3 }} {{ [1]*2 }} {{ [1]+[2] }}
{{ s|upper }} {{ s|lower }} {{ s|title }} {{ s|capitalize }} {{ s.title() }} {{ s.upper() }} {{ "they're bill's" | title }} {{ "they're bill's".title() }}
{{ s|length }} {{ l|length }} {{ d|length }} {{ 'é日'|length }} {{ undefinedx|length }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[:-4] }} {{ l[1:] }} {{ l[::2] }} {{ 'é日本'[1:] }} {{ s[100:] }} {{ l[5] }} {{ l[-1] }}
{{ l|sort }} {{ words|sort }} {{ words|sort(reverse=true) }} {{ words|sort(case_sensitive=true) }} {{ people|sort(attribute='age')|map(attribute='name')|join(',') }} {{ people|sort(attribute='age,name')|map(attribute='name')|join(',') }}
{{ words|unique|list }} {{ l|sum }} {{ l|min }} {{ l|max }} {{ people|sum(attribute='age') }} {{ people|map(attribute='x.y')|list }} {{ people|max(attribute='age') }}
{{ people|groupby('age')|list|length }} {% for k, g in people|groupby('age') %}{{ k }}:{{ g|map(attribute='name')|join('/') }};{% endfor %}
{{ people|selectattr('age','equalto',3)|map(attribute='name')|list }} {{ people|rejectattr('age','equalto',3)|map(attribute='name')|list }} {{ people|selectattr('age')|list|length }} {{ l|select('odd')|list }} {{ l|reject('>', 1)|list }} {{ l|select|list }}
{{ l|map('string')|join('-') }} {{ words|map('upper')|join }} {{ l|first }} {{ l|last }} {{ []|first }} {{ 'abc'|first }} {{ 'abc'|list }} {{ d|list }}
{{ d|dictsort }} {{ d|dictsort(by='value', reverse=true) }} {{ d|dictsort(true) }} {{ d|items|list }} {{ d.items()|list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.get('zz') }} {{ d.get('a') }} {{ d.get('zz', 9) }}
{{ tools|tojson }} {{ tools[0]|tojson(indent=2) }} {{ 'é\u0001"\\/<'|tojson }} {{ {'a':1.0,'b':[],'c':{}}|tojson(indent=4) }} {{ 'é'|tojson(ensure_ascii=true) }} {{ d|tojson(sort_keys=true) }} {{ d|tojson(separators=(',',':')) }} {{ {1:2, none:3, true:4}|tojson }}
{{ '  x '|trim }}| {{ 'xxaxx'|trim('x') }} {{ '  x '.strip() }}| {{ '  x '.lstrip() }}| {{ '  x '.rstrip() }}| {{ 'xyaxy'.strip('yx') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ ' a  b c '.rsplit(none, 1) }} {{ 'a<x>b<x>'.split('<x>')[-1] }} {{ 'a\nb\r\nc'.splitlines() }}
{{ s.startswith('Hello') }} {{ s.endswith(('x','bar')) }} {{ s.replace('o','0') }} {{ s.replace('o','0',1) }} {{ s|replace('o','0') }} {{ s|replace('o','0',1) }} {{ 'aaa'|replace('','-') }} {{ s.find('World') }} {{ s.find('zz') }} {{ s.count('o') }} {{ ','.join(words) }}
{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ 'Ab'.isupper() }} {{ ' '.isspace() }} {{ 'a1'.isalnum() }} {{ 'ab'.islower() }} {{ 'x'.center(5) }}| {{ 'xy'.center(5) }}| {{ 'x'.ljust(3) }}| {{ 'x'.rjust(3,'*') }} {{ 'x'|center(6) }}|
{{ undefinedx }} {{ undefinedx is defined }} {{ n is defined }} {{ none is none }} {{ n is number }} {{ s is string }} {{ d is mapping }} {{ l is iterable }} {{ l is sequence }} {{ d is sequence }} {{ t is boolean }} {{ f is float }} {{ n is integer }} {{ n is odd }} {{ 4 is even }} {{ n is divisibleby 5 }} {{ n is eq 5 }} {{ n is in [5] }} {{ 'a' is lower }} {{ none is not none }} {{ t is sameas true }} {{ n is ge 5 }} {{ undefinedx is undefined }} {{ t is true }} {{ 1 is true }}
{{ 'x' if false }}| {{ 'x' if t else 'y' }} {{ undefinedx or 'dflt' }} {{ undefinedx|default('d') }} {{ empty|default('d') }}| {{ empty|default('d', true) }} {{ none|default('d') }} {{ empty|d('x', boolean=true) }} {{ not t }} {{ t and 0 }} {{ 0 or [] }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' in 'abc' }} {{ 'z' not in d }} {{ 'a' in d }} {{ 3 in l }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ 1 == 1.0 }} {{ 'a' == 1 }} {{ none == false }} {{ not 1 == 2 }} {{ [1,[2]] == [1,[2]] }} {{ (1,2) == [1,2] }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a','b') }}{{ loop.depth }}|{% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }}{% else %}none{% endfor %}{% for x in [] %}a{% else %}empty{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for a, b in [(1,2),(3,4)] %}{{ a+b }}{% endfor %}{% for c in 'abc' %}{{ c }}.{% endfor %}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %} {{ range(3)|list }} {{ range(1,10,3)|list }} {{ range(3,0,-1)|list }}
{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set y %}blk {{ x }}{% endset %}{{ y }}{% set z | upper %}abc{% endset %}{{ z }}
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{% set ns.c = [1] %}{{ ns.c }}
{% macro m(a, b='dflt', c=none) %}[{{ a }}|{{ b }}|{{ c }}|{{ varargs }}|{{ kwargs }}]{% endmacro %}{{ m(1) }}{{ m(1,2,3,4,5) }}{{ m(b=2, a=1, z=9) }}{{ m() }}
{% macro outer() %}<{{ caller() }}>{% endmacro %}{% call outer() %}in{{ n }}{% endcall %}{% macro o2() %}{{ caller(1,2) }}{% endmacro %}{% call(a,b) o2() %}{{ a }}{{ b }}{% endcall %}
{% macro rec(k) %}{{ k }}{% if k > 0 %}{{ rec(k-1) }}{% endif %}{% endmacro %}{{ rec(3) }}{% macro uses_global() %}{{ s }}{{ x }}{% endmacro %}{% set x = 77 %}{{ uses_global() }}
{% filter upper %}abc{{ s }}{% endfilter %}{% filter replace('a','b')|title %}aaa xx{% endfilter %}{% with q = 5, r = n %}{{ q+r }}{% endwith %}{{ q }}
{% raw %}{{ not }} {% if %}{% endraw %}x{#- comment -#} y {# c #}
   z {# c #}
a   {%- if true %} b {%- endif %}   c
  {%- for i in l -%}
   {{ i }}
  {%- endfor -%}
   end
  {% if true %}
  x
  {% endif %}
y
  {%+ if true %}w{% endif +%}
v{% if true -%}   u   {%- endif %}
{{- s }}   {{ s -}}   q
{% generation %}gen{{ n }}{% endgeneration %}
{{ '%s is %d and %.2f %5s|%-5s|%%' % ('a', 3, 2.5, 'x', 'y') }} {{ '%s' % s }} {{ '%s-%s'|format(1,2) }} {{ '{} {1} {x}'.format(1,2,x=3) if false else '' }}{{ '{0}-{x}'.format(1,x=3) }}
{{ 'line1\nline2\n\nline4'|indent(2) }}|{{ 'a\nb'|indent(2,true) }}|{{ 'a\n\nb'|indent('>',blank=true) }}|
{{ '12'|int + 1 }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ 3.9|int }} {{ '3.7'|int }} {{ '2.5'|float }} {{ 'q'|float }} {{ '0x1f'|int(base=16) }} {{ 2.567|round(2) }} {{ 2.5|round }} {{ 3.5|round|int }} {{ 2.1|round(method='ceil') }} {{ -3|abs }} {{ n|string + 'x' }}
{{ 'foo bar baz qux long text'|truncate(12) }} {{ 'foo bar baz'|truncate(5, true) }} {{ 'a b c'|wordcount }} {{ '<a href="x">\'&'|e }} {{ 'a b/c?d=é'|urlencode }} {{ l|batch(2)|list }} {{ l|batch(2,'x')|list }} {{ l|slice(2)|list }} {{ 'abc'|reverse }} {{ l|reverse|list }}
{{ messages[0]['role'] }} {{ messages[-1].tool_calls[0].function.name }} {{ messages[2].tool_calls is defined }} {{ messages[1].tool_calls is defined }} {{ messages[1]['tool_calls'] }} {{ messages|map(attribute='role')|list }} {{ messages[2].tool_calls[0].function.arguments|tojson }} {{ messages[1:]|length }}
{{ messages[2].tool_calls[0].function.arguments.items()|list }} {{ 'x' in messages[0] }} {{ messages[0].content is string }} {{ messages|selectattr('role','equalto','system')|list|length }} {{ (messages|first).role }} {{ messages[0].get('x', 'none') }}
{{ strftime_now('%d %b %Y') }} {{ strftime_now("%Y-%m-%d") }} {{ (1,2,3) }} {{ (1,) }} {{ () }} {{ {} }} {{ [] }} {{ {'a': [1, {'b': none}]} }} {{ dict(a=1, b=2) }} {{ true }} {{ True }} {{ None }}
{{ 'a' 'b' }} {{ "\x41\u00e9\t|\\n" }} {{ '\'' }} {{ 10_000 }} {{ -n }} {{ +n }} {{ -n|abs }} {{ 'x'.upper() ~ 'y' }} {{ (n + 1) * 2 }} {{ n + 1 * 2 }} {{ 2 * 3 ** 2 }} {{ 'a' + 'b' ~ 'c' }} {{ 1 ~ 2 + 3 }}
{% if n > 3 and s is string or false %}A{% elif n %}B{% else %}C{% endif %}{% if not undefinedx %}D{% endif %}{% if s is not none and s != '' %}E{% endif %}{% if undefinedx is defined and undefinedx.x %}F{% else %}G{% endif %}
{% set content = 'a</think>b' %}{% if '</think>' in content %}{{ content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}#{{ content.split('</think>')[-1].lstrip('\n') }}{% endif %}
{% for message in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{{ index }}{% endfor %}{% for m in messages %}{{ loop.changed(m.role) }}{% endfor %}
{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %} {% for row in nested %}{% for c in row %}{{ loop.depth }}{{ c }}{% endfor %}{% endfor %}
{{ words|join(', ', attribute=none) if false else words|join(', ') }} {{ people|join(', ', attribute='name') }} {{ [none, true, 1.5]|join('|') }} {{ d|join(',') }} {{ 'abc'|join('-') }}
{{ "a" is filter }} {{ 'upper' is filter }} {{ 'defined' is test }} {{ m is callable }} {{ 5 is callable }} {{ s|safe }} {{ {'x': 1}.x }} {{ {'x': 1}['x'] }} {{ [1,2,3].index(2) }} {{ [1,1].count(1) }} {{ 'abc'.index('c') }} {{ 'pre-x'.removeprefix('pre-') }}
{{ messages|length > 1 }} {{ messages | length - 1 }} {{ messages[0] == messages[0] }} {{ 'A' < 'a' }} {{ '10' < '9' }} {{ 3 if 1 else 2 if 0 else 1 }} {{ l|map('abs')|sum }} {{ ['a','b']|map('replace','a','c')|list }} {{ people|map(attribute='zz', default='-')|list }}
'''.strip('\n')
REFUSED = ["{{ x.y }}","{{ none.x.y }}","{{ 1 + 'a' }}","{{ 'a' + 1 }}","{{ l.append(1) }}","{{ d.update({}) }}","{{ raise_exception('boom') }}","{% for %}","{{ undefinedx() }}","{{ 1/0 }}","{{ s|nofilter }}","{{ n is notest }}","{% if x %}","{{ 'abc","{{ 1 | tojson(","{% endif %}","{{ l|sort(attribute='x') }}","{% break %}","{{ [1,'a']|sort }}","{% set a, b = [1] %}","{{ m(1)","{{ undefinedx.foo }}","{{ undefinedx|tojson }}","{% for a in 5 %}{% endfor %}","{{ 1 < 'a' }}","{{ none|length }}","{{ s.nomethod() }}","{% set s.x = 1 %}"]

CHATML_WITH_TOOLS = r"""{%- if tools %}
    {{- '<|start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- "# Tools\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|end|>\n" }}
{%- elif messages and messages[0].role == 'system' %}
    {{- '<|start|>system\n' + messages[0].content + '<|end|>\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, looking=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.looking and message.role == "user" and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.looking = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "assistant" %}
        {%- set content = message.content or '' %}
        {%- if '</think>' in content and loop.index0 < ns.last %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|start|>' + message.role + '\n' + content }}
        {%- for call in message.tool_calls or [] %}
            {%- if call.function %}{%- set call = call.function %}{%- endif %}
            {{- '\n<call>{"name": "' ~ call.name ~ '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}</call>' }}
        {%- endfor %}
        {{- '<|end|>\n' }}
    {%- elif message.role != "system" or not loop.first %}
        {{- '<|start|>' + message.role + '\n' + message.content + '<|end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""
ALTERNATING = r"""{{ bos_token }}{% if messages and messages[0]['role'] == 'system' %}
{% set system_message = messages[0]['content'] | trim + '\n\n' %}{% set loop_messages = messages[1:] %}
{% else %}
{% set system_message = '' %}{% set loop_messages = messages %}
{% endif %}
{% for message in loop_messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate user/assistant/user/assistant/...') }}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{ '[INST] ' ~ (system_message if loop.first else '') ~ message['content'] | trim ~ ' [/INST]' -}}
    {% else %}
        {{ ' ' + message['content'] | trim + eos_token -}}
    {% endif %}
{% endfor %}
"""
DATED = r"""{{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{%- macro header(role) -%}<h>{{ 'model' if role == 'assistant' else role }}</h>{{ '\n\n' }}{%- endmacro %}
{{- header('system') ~ "Today: " + date_string + "\n" }}
{%- for message in messages if message.role in ['user', 'assistant'] %}
    {{- header(message.role) }}
    {%- if message.content is string %}{{- message.content | trim }}
    {%- elif message.content is iterable %}
        {%- for item in message.content %}{{- item.text if item.type == 'text' else '<image>' }}{%- endfor %}
    {%- endif %}
    {{- '<eot>' }}
    {%- if loop.last and message.role == 'user' and add_generation_prompt %}{{ header('assistant') }}{% endif %}
{%- else %}
    {{- raise_exception("Nothing to answer") }}
{%- endfor %}
"""
# Messages on channels; types of parameters by a macro that calls itself.
CHANNELS = r"""{#- Types ===== #}
{%- macro type_of(spec, required) -%}
    {%- if spec.type == "array" -%}
        {{- type_of(spec['items'], []) + "[]" if spec['items'] else "any[]" }}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type[0] is defined -%}
        {{- spec.type | join(" | ") }}
    {%- elif spec.oneOf -%}
        {%- for variant in spec.oneOf -%}
            {{- type_of(variant, required) -}}
            {%- if not loop.last %}{{- " | " }}{% endif -%}
        {%- endfor -%}
    {%- elif spec.type == "object" and spec.properties -%}
        {{- "{" }}
        {%- for name, inner in spec.properties.items() -%}
            {{- name ~ ("" if name in (spec.required or []) else "?") }}: {{ type_of(inner, spec.required or []) }}
            {%- if not loop.last -%}{{-", " }}{%- endif -%}
        {%- endfor -%}
        {{- "}" }}
    {%- elif spec.enum -%}
        {{- '"' + spec.enum|join('" | "') + '"' -}}
    {%- else -%}
        {{- spec.type or "any" }}
    {%- endif -%}
{%- endmacro -%}
{%- macro system() -%}
    {%- if reasoning_effort is not defined %}
        {%- set reasoning_effort = "medium" %}
    {%- endif %}
    {{- "Date: " + strftime_now("%Y-%m-%d") + "\n\nReasoning: " + reasoning_effort }}
    {%- if tools -%}
        {%- for tool in tools %}
            {%- set tool = tool.function %}
            {{- "\ntype " + tool.name + " = " + type_of(tool.parameters, []) }}
        {%- endfor %}
    {%- endif -%}
{%- endmacro -%}
{{- "<|start|>system<|message|>" + system() + "<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set rest = messages[1:] %}
    {{- "<|start|>developer<|message|>" + messages[0].content + "<|end|>" }}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{%- set last_call = namespace(name=none) %}
{%- for message in rest -%}
    {%- if message.role == 'assistant' -%}
        {%- if "thinking" in message and "<|channel|>" in message.thinking %}
            {{- raise_exception("a channel in the thinking") }}
        {%- endif %}
        {%- if "tool_calls" in message %}
            {%- set later = namespace(found=false) %}
            {%- for other in rest[loop.index:] %}
                {%- if other.role == 'assistant' and "tool_calls" not in other %}
                    {%- set later.found = true %}
                {%- endif %}
            {%- endfor %}
            {%- set call = message.tool_calls[0].function or message.tool_calls[0] %}
            {%- if message.thinking and not later.found %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant to=functions." + call.name + "<|channel|>commentary " }}
            {{- (call.content_type if call.content_type is defined else "json") + "<|message|>" }}
            {{- call.arguments|tojson }}
            {{- "<|call|>" }}
            {%- set last_call.name = call.name %}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content }}
            {{- "<|return|>" if loop.last and not add_generation_prompt else "<|end|>" }}
            {%- set last_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_call.name is none %}
            {{- raise_exception("a result without a call") }}
        {%- endif %}
        {{- "<|start|>functions." + last_call.name + " to=assistant<|message|>" + message.content|tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}
"""


def channel_conversations():
    user, answer = {"role": "user", "content": "Hi <b>é\n x"}, {"role": "assistant", "content": "yes"}
    call = {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
        {"function": {"name": "f", "arguments": {"x": 1, "y": [1.5, None, True]}}}]}
    plain_call = {"role": "assistant", "tool_calls": [{"name": "g", "content_type": "code", "arguments": "1"}]}
    result, system = {"role": "tool", "content": "sunny"}, {"role": "system", "content": "Be terse."}
    parameters = {"type": "object", "required": ["a"], "properties": {
        "a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": ["string", "null"]}}}},
        "c": {"oneOf": [{"type": "number"}, {"enum": ["x", "y"]}]}, "d": {}, "e": {"type": "array"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    bad = {"role": "assistant", "content": "", "thinking": "<|channel|>"}
    for messages in ([user], [system, user, answer, user], [user, call, result], [user, call, result, answer, user],
                     [user, plain_call, result, answer], [user, result], [user, bad]):
        for more in ({"add_generation_prompt": True}, {"tools": tools, "reasoning_effort": "high"}):
            yield {"messages": messages, **more}


def conversations():
    user = lambda text: {"role": "user", "content": text}
    model = lambda text, **more: {"role": "assistant", "content": text, **more}
    system = {"role": "system", "content": "Be terse. "}
    call = model("", tool_calls=[{"id": "a", "function": {"name": "f", "arguments": {"x": 1, "y": ["é", None]}}}])
    for messages in ([user("Hi")], [system, user(" Hi, who\n are you?  "), model("I am.\n"), user("What <b>é 日?")],
                     [user("a"), model("<think>\nhm\n</think>\n\nb"), user("c"), model("<think>x</think>y")],
                     [user("a"), user("b")], [], [system, user("w"), call, user("<r>3</r>"), model("3."), user("ok")],
                     [user([{"type": "text", "text": "t"}, {"type": "image"}])] ):
        for more in ({"add_generation_prompt": True}, {"tools": VARIABLES["tools"]},
                     {"add_generation_prompt": True, "enable_thinking": False, "tools": None}):
            yield {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", **more}


def main():
    lines = LINES.strip("\n").split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("{% raw %}"))
    last = next(i for i, line in enumerate(lines) if line.startswith("{% generation"))
    templates = lines[:first] + ["\n".join(lines[first:last])] + lines[last:] + REFUSED
    cases = [(template, None) for template in templates]
    cases += [(template, variables) for template in (CHATML_WITH_TOOLS, ALTERNATING, DATED) for variables in conversations()]
    cases += [(CHANNELS, variables) for variables in channel_conversations()]
    written = []
    for template, variables in cases:
        case = {"template": template}
        if variables is not None:
            case["variables"] = variables
        try:
            case["text"] = environment().from_string(template).render(**(variables or VARIABLES))
        except Exception:
            case["text"] = None  # refused
        written.append(case)
    target = pathlib.Path(__file__).parents[1] / "llm/chat/chat_templates.json"
    target.write_text(json.dumps({"now": NOW, "variables": VARIABLES, "cases": written}, indent=0) + "\n")
    print(f"{len(written)} cases, {sum(case['text'] is None for case in written)} refused")


if __name__ == "__main__":
    main()
