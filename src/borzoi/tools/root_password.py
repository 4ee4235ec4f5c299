"""``borzoi reset-root-password``: a way back in when the password of root is lost.

It works on the metadata log of a stopped server, as if root had changed its password there.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from borzoi.metadata.commands import LoggedCommand, encode_command
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.sealed import SealedChangePassword
from borzoi.model.errors import InvalidConfiguration, InvalidRequest
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.users import UserStatus
from borzoi.protocol.commands.users import UpdateUser
from borzoi.security.encryption import Cipher
from borzoi.security.passwords import check_password, hash_password
from borzoi.server.data_directory import DataDirectory
from borzoi.server.overrides import variable
from borzoi.server.root_user import random_password
from borzoi.shard.metadata_plane import recovered_state
from borzoi.storage.local import LocalMedium
from borzoi.storage.state_log import StateSettings, open_state_log
from borzoi.tools.command import directory_argument, key_option
from borzoi.tools.inspection import is_data_directory
from borzoi.tools.terminal import report_errors


@click.command("reset-root-password")
@directory_argument
@key_option
@report_errors
def reset_root_password(directory: Path, encryption_key: str | None) -> None:
    """Give the root user of the data DIRECTORY a new password.

    The server must be stopped. The password comes from BORZOI_ROOT_PASSWORD; without it a random
    one is printed. A root user that was deactivated becomes active again.
    """
    reset(
        directory,
        environment=os.environ,
        cipher=Cipher(encryption_key) if encryption_key else None,
        tell=click.echo,
    )


def reset(
    directory: Path,
    *,
    environment: Mapping[str, str],
    cipher: Cipher | None,
    tell: Callable[[str], None],
) -> None:
    """Change the password in the metadata log, after telling a random one."""
    medium = LocalMedium()
    if not is_data_directory(medium, directory):
        raise InvalidConfiguration(f"{directory} is not a data directory of borzoi")
    given = variable(environment, "ROOT_PASSWORD")
    if given is not None:
        try:
            check_password(given)
        except InvalidRequest as fault:
            raise InvalidConfiguration(f"BORZOI_ROOT_PASSWORD: {fault}") from fault
    with DataDirectory(directory):
        state_log, recovered = open_state_log(
            medium, directory, StateSettings(enforce_fsync=True), cipher=cipher
        )
        try:
            state = recovered_state(recovered)
            root = state.users.get(ROOT_USER_ID)
            if root is None:
                raise InvalidConfiguration(
                    f"{directory} has no root user yet: the next start of a server creates it"
                )
            password = random_password() if given is None else given
            commands: list[LoggedCommand] = [
                SealedChangePassword(ROOT_USER_ID, hash_password(password))
            ]
            if root.status is not UserStatus.ACTIVE:
                commands.append(UpdateUser(ROOT_USER_ID, None, UserStatus.ACTIVE))
            # Printed before it is stored: when printing fails, the old password is still good.
            if given is None:
                tell(f"the new password of {root.username} is {password}")
            for command in commands:
                entry = Entry(time.time_ns() // 1000, ROOT_USER_ID, command)
                apply(state, entry)
                code, encoded = encode_command(command)
                state_log.append(
                    timestamp=entry.at, user_id=ROOT_USER_ID, code=code, command=encoded
                )
        finally:
            state_log.close()
    tell(f"the password of {root.username} was changed")
