"""Users who are called by their e-mail address and numbered by nobody."""

import uuid
from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models


class PersonManager(BaseUserManager["Person"]):
    def create_superuser(self, email: str, password: str, **fields: Any) -> "Person":
        person = self.model(email=email, is_superuser=True, **fields)
        person.set_password(password)
        person.save()
        return person


class Person(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)

    objects: ClassVar[PersonManager] = PersonManager()

    USERNAME_FIELD = "email"

    def __str__(self) -> str:
        return self.email
