"""What the engine says, in English and without gettext, as the catalogues have it."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

PHRASES = (
    # Of the log.
    _("attempt %(number)s failed, the next one comes at once"),
    _("attempt %(number)s failed, the next one comes in %(seconds)s s"),
    # Of schedules.
    _("Schedule %(expression)s: %(reason)s"),
    _("No worker that is alive knows the workflow %(name)s."),
    _("Its workflow has another schedule called %(name)s."),
    _("cannot be understood: %(error)s"),
    _("can never fire: there is no such date"),
    _("never fires after %(after)s (%(error)s)"),
    _("does not get past %(after)s in %(zone)s"),
    _("at most %(most)s ASCII characters, please"),
    _("has to have five fields (minute hour day month weekday), or six (and second)"),
    _("H and R are not supported: name the values, or use jitter"),
    _("the range %(range)s would stand for every value: write %(value)s alone, or *"),
    _("the range %(range)s goes past the end and has a step: write two ranges"),
    _("%(field)s has weekdays of different kinds: make a schedule of each"),
    _("%(day)s and %(weekday)s cannot be combined: make a schedule of each"),
    _("unknown time zone %(name)s"),
    _("The first %(count)s due instants from %(since)s on have their runs. Begin the window later."),
    # Of workflows and forks.
    _("No workflow is registered under %(name)s."),
    _("No workflow is registered under %(name)s. Did you mean %(close)s?"),
    _("it never came there."),
    _("turn %(turn)s of loop %(path)s has left the journal, which keeps the last turns (history=…) only."),
    _("its journal does not say any more what the state of turn %(turn)s of loop %(path)s was."),
    _("its journal is damaged (%(error)s)."),
    # Of how a run is started.
    _("queue must be 1 to 100 letters, digits, dots, dashes or underscores, not %(name)s."),
    _("priority must be an integer from -100 to 100, not %(name)s."),
    _("%(when)s is at the end of the calendar, where databases cannot give it back."),
    _("%(option)s of %(workflow)s says when its runs start: it takes no run_after."),
    _("Idempotency key %(key)s of %(workflow)s belongs to run %(run)s: %(reason)s."),
    _("it was given with another input"),
    _("it is taken"),
    # Of input and signatures: some of it in the words of Python's own inspect.
    _("Input of %(workflow)s: %(problems)s"),
    _("missing a required argument: %(name)s"),
    _("missing a required keyword-only argument: %(name)s"),
    _("missing a required positional-only argument: %(name)s"),
    _("got an unexpected argument %(name)s"),
    _("got an unexpected keyword argument %(name)s"),
    _("got some positional-only arguments passed as keyword arguments: %(name)s"),
    _("%(name)s parameter is positional only, but was passed as a keyword"),
    _("multiple values for argument %(name)s"),
    _("too many positional arguments"),
    # Of events.
    _(
        "Run %(run)s has open events: %(events)s, of %(size)s bytes. %(setting)s is %(limit)s: "
        "send it again when the run has taken some."
    ),
    # Of what is stored.
    _("Stored payload cannot be read: %(reason)s"),
    _("journal entry %(path)s: %(reason)s"),
    _("the input is gone"),
    _("the input is no mapping"),
    _("no list"),
    _("item %(index)s of map %(path)s is not in the journal"),
    _("damaged text (%(error)s)"),
    _("a damaged tag"),
    _("unknown tag %(name)s"),
    _("no class is registered as %(name)s. Is the module with its @durable_type imported?"),
    _("%(name)s has no field %(field)s"),
    _("the field %(field)s is missing and has no default"),
    _("its repr() raised %(error)s"),
    # Of names and payloads.
    _("tag %(name)s: %(reason)s"),
    _("idempotency key %(name)s: %(reason)s"),
    _("is empty"),
    _("is longer than %(most)s characters"),
    _("has control characters or lone surrogates"),
    _(
        "takes %(size)s bytes as JSON and the cap is %(cap)s. "
        "Keep large data in a file or table of its own and pass a reference to it."
    ),
    _("is nested more than %(most)s levels deep"),
    _("is nested more deeply than the stack has room for"),
    _("an int of more than %(most)s digits cannot be stored; store it as bytes"),
    _("its time zone, a %(name)s, cannot be stored; use zoneinfo.ZoneInfo(key) or datetime.timezone"),
    _("its attribute %(name)s is not a field and would be lost"),
    _("%(enum)s has no member of the name %(name)s"),
    _("%(enum)s has no member of the value %(value)s"),
    _("a %(name)s cannot be stored: %(error)s"),
    _("a %(name)s cannot be stored; %(hint)s"),
    _('register the class with @durable_type("a name")'),
    _("it would come back as a plain str: convert it to one first, with value[:]"),
    _("it would come back as a plain %(name)s: convert it to one first"),
    _("convert it to bytes"),
    _("convert it to a dict"),
    _("convert it to a list"),
    _("convert it to a str"),
    _("pass plain data, or a dataclass or Enum registered with @durable_type"),
    _("cannot be written: %(error)s"),
    _("cannot be stored: %(error)s"),
    _("has a part that cannot be stored: %(error)s"),
    _("has a part that cannot be stored, nested too deeply to say where"),
    # Of runs that are blocked.
    _(
        "The function returned without coming to %(path)s and %(count)s more, which the journal has. "
        "Say ctx.removed() for what the code no longer has."
    ),
    _(
        "The function returned without coming to %(path)s, which the journal has. "
        "Say ctx.removed() for what the code no longer has."
    ),
    _("%(path)s is a wait for one event in the journal, but the code now asks for several."),
    _("%(path)s is a wait for several events in the journal, but the code now asks for one."),
    _("%(path)s is a %(kind)s in the journal, but the code now asks for a %(asked)s."),
    _("%(path)s was begun with the branches %(before)s, but the code now gives it %(now)s."),
    _("%(path)s was begun with %(count)s items, but the code now gives it %(now)s."),
    _("%(path)s was begun with another item %(index)s than the code now gives it."),
    _("%(path)s was begun with other items, or in another order, than the code now gives it."),
    _("Step %(path)s has to be undone, but the code gives it no compensation any more."),
    _(
        "Step %(path)s has to be undone, but the code does not come to it any more: "
        "it comes to nothing that is journaled."
    ),
    _("Step %(path)s has to be undone, but the code does not come to it any more: it ends after %(last)s."),
    _(
        "Step %(path)s has to be undone, but the code does not come to it any more: "
        "it cannot go on at %(last)s, of which the journal has no result."
    ),
)
"""As the engine says them: by these a text is known again, whatever stands in the places of the names. One that is said
otherwise one day is shown in English. Of two that know the same text the first one counts."""
