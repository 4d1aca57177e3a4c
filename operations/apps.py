"""Django's admin, with our own site in the place of its default."""

from django.contrib.admin.apps import AdminConfig


class OperationsAdminConfig(AdminConfig):
    """The admin whose front page tells how the product is."""

    default_site = "operations.site.OperationsSite"
