"""Infrastructure as code from one description: CloudFormation, SAM, Terraform, and the CDK.

`Deployment` is what a user says, `plan` what follows from it, and each rendering the same in another language. All of
it is pure: no account is asked, and no file is written.
"""
