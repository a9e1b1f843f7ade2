"""Infrastructure as code from one description: CloudFormation, SAM, Terraform, and the CDK.

`Deployment` is what a user says, `plan` what follows from it, and each rendering the same in another language. No
account is asked and no file is written; only `package`, the functions' code, reads files: this library's own.
"""
