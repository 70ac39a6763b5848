from .address import Backend as Backend
