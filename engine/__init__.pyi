from .address import Address as Address, open_source as open_source
