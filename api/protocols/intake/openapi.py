"""The operations of Agent Intake for the OpenAPI document."""

from __future__ import annotations

from functools import partial

from aidre.api.http import Content, Operation, Parameter, link
from aidre.api.protocols.intake.messages import (
    BindAnswer,
    BindRequest,
    IntakeAnswer,
    IntakeFailure,
    IntakeManifest,
    IntakeRequest,
)
from aidre.api.protocols.intake.routes import WELL_KNOWN

_operation = partial(Operation, tag="Agent Intake", error=Content(IntakeFailure, description="An error"))

OPERATIONS: tuple[Operation, ...] = (
    _operation(
        method="get",
        path=WELL_KNOWN,
        name="showIntakes",
        summary="The manifest of intakes",
        description="The provider and its intakes: what each takes, and what comes of it.",
        answers={200: Content(IntakeManifest)},
        errors=(500,),
        conditional=True,
    ),
    _operation(
        method="post",
        path="/intakes/bind",
        name="bindOffer",
        summary="Accept an offer",
        description="The same data get the same answer again, also after the offer has expired.",
        request=Content(BindRequest),
        answers={200: Content(BindAnswer)},
        errors=(400, 404, 408, 409, 410, 413, 415, 500),
    ),
    _operation(
        method="post",
        path="/intakes/{id}",
        name="submitIntake",
        summary="Submit data and get an offer",
        description="The data fit the input_schema of the intake. Where nothing relevant is found, it is declined.",
        request=Content(IntakeRequest),
        answers={200: Content(IntakeAnswer)},
        errors=(400, 404, 408, 413, 415, 500),
        parameters=(Parameter("id", "path", "The id of an intake", "find-a-plumber"),),
        links={
            "bind": link(
                "bindOffer",
                "Accept the offer: `offer_id` is `offer.id` of this answer, `session_id` is its own; agent and "
                "bind_data come from the user, whose consent has the scope bind",
            )
        },
    ),
)
